function __complete_commons
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    /usr/bin/commons
end
complete -f -c commons -a "(__complete_commons)"

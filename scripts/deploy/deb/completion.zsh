#compdef commons
autoload -U +X bashcompinit && bashcompinit
complete -o default -o bashdefault -C /usr/bin/commons commons

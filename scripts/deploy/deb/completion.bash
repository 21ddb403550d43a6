complete -o default -o bashdefault -C /usr/bin/commons commons

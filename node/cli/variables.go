package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/commons-cluster/commons/fsm/text"
)

// variablePrefix begins the name of every variable that is a setting.
const variablePrefix = "COMMONS_"

// composeVariables are the variables that docker-compose.cluster.yml reads itself. A node
// sees them if an operator exports them, or passes on a whole file of variables.
var composeVariables = []string{
	"COMMONS_BACKUP", "COMMONS_GO_MEMORY", "COMMONS_IMAGE", "COMMONS_MEMORY", "COMMONS_PORT", "COMMONS_SUBNET",
}

// serviceVariable matches the variables that Kubernetes sets in every container beside a
// service called commons or commons-…. A variable that ends in _PORT alone holds a URL.
var serviceVariable = regexp.MustCompile(`^COMMONS(_[A-Z0-9_]+)?_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=` +
	`|^COMMONS(_[A-Z0-9_]+)?_PORT=(tcp|udp|sctp)://`)

// unknownVariables returns the problems with variables that look like settings but are not.
// A misspelt variable would be ignored silently, and a node without its --join forms a new
// cluster.
func unknownVariables(environment []string, app *kong.Application) []string {
	known := slices.Concat(variablesOf(app.Node), composeVariables)
	short := make([]string, len(known)) // without the common prefix, which would make all similar
	for i, name := range known {
		short[i] = strings.ToLower(strings.TrimPrefix(name, variablePrefix))
	}
	var problems []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, variablePrefix) || slices.Contains(known, name) || serviceVariable.MatchString(variable) {
			continue
		}
		problem := name + ": this variable is not a setting"
		if near := text.Nearest(strings.TrimPrefix(name, variablePrefix), short); near != "" {
			problem += fmt.Sprintf("; did you mean %s%s? Correct it or unset it", variablePrefix, strings.ToUpper(near))
		} else {
			problem += "; unset it"
		}
		problems = append(problems, problem)
	}
	slices.Sort(problems)
	return problems
}

// variablesOf returns the variables of a command's flags and of all commands below.
func variablesOf(n *kong.Node) []string {
	var names []string
	for _, flag := range n.Flags {
		names = append(names, flag.Envs...)
	}
	for _, child := range n.Children {
		names = append(names, variablesOf(child)...)
	}
	return names
}

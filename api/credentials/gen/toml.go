package main

import (
	"fmt"
	"strconv"
	"strings"
)

// parse reads what the configuration of gitleaks uses of TOML: tables, arrays of
// tables, strings in three kinds of quotes, numbers, and arrays of strings.
func parse(config string) (rules []rule, stopwords []string, err error) {
	table := ""
	lines := strings.Split(config, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] == '[' {
			if table = strings.Trim(line, "[]"); table == "rules" {
				rules = append(rules, rule{})
			}
			continue
		}
		name, value, found := strings.Cut(line, " = ")
		if !found {
			return nil, nil, fmt.Errorf("line %d is no setting: %s", i+1, line)
		}
		var items []string
		switch {
		case value == "[":
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "]"; i++ {
				items = append(items, text(strings.TrimSuffix(strings.TrimSpace(lines[i]), ",")))
			}
		case strings.HasPrefix(value, "["):
			items = []string{text(strings.Trim(value, "[]"))}
		default:
			items = []string{text(value)}
		}
		switch table + "." + name {
		case "allowlist.stopwords":
			stopwords = items
		case "rules.allowlists.regexes":
			rules[len(rules)-1].allowlist = true
		}
		if table == "rules" {
			if err := rules[len(rules)-1].set(name, items); err != nil {
				return nil, nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
	}
	return rules, stopwords, nil
}

// set takes one setting of a rule. Its keywords are not needed: a rule that suits
// has a prefix.
func (r *rule) set(name string, items []string) (err error) {
	switch name {
	case "id":
		r.id = items[0]
	case "regex":
		r.regex = items[0]
	case "path":
		r.path = items[0]
	case "entropy":
		r.entropy, err = strconv.ParseFloat(items[0], 64)
	}
	return err
}

// text is a value without its quotes.
func text(value string) string {
	if inner, literal := strings.CutPrefix(value, "'''"); literal {
		return strings.TrimSuffix(inner, "'''")
	}
	if unquoted, err := strconv.Unquote(value); err == nil {
		return unquoted
	}
	return value
}

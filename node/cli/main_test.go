package cli

import (
	"os"
	"strings"
	"testing"
)

// asProgram makes the test binary be the program: what is tested there needs a
// process of its own.
const asProgram = "CLI_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:]))
	}
	// The settings of whoever runs the tests are none of theirs.
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, variablePrefix) {
			if err := os.Unsetenv(name); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

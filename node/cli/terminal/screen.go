package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Escape sequences of a terminal: they switch to another screen and back, and overwrite a
// screen without flicker.
const (
	screenEnter = "\x1b[?1049h\x1b[?25l"
	screenLeave = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	lineRest    = "\x1b[K"
	screenRest  = "\x1b[J"
)

// Screen shows one text after the other. A live screen is a terminal, on which each text
// replaces the one before; otherwise texts are written below each other.
type Screen struct {
	Out  io.Writer
	Live bool
}

// Enter switches a terminal to another screen. leave shows again what was there before.
func (s *Screen) Enter() (leave func()) {
	if !s.Live {
		return func() {}
	}
	fmt.Fprint(s.Out, screenEnter)
	return func() { fmt.Fprint(s.Out, screenLeave) }
}

// Show replaces the text on the screen.
func (s *Screen) Show(text string) {
	if !s.Live {
		fmt.Fprintln(s.Out, text)
		return
	}
	text += time.Now().Format(time.TimeOnly) + "   Ctrl-C ends this\n"
	fmt.Fprint(s.Out, screenHome, strings.ReplaceAll(text, "\n", lineRest+"\n"), screenRest)
}

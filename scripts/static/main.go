// Command static answers every request with the same bytes from memory, by the web framework
// of the product. scripts/bench.sh compares lists with it.
package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/gofiber/fiber/v2"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "static:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("two arguments: the address to listen on, and the URL whose answer is served")
	}
	body, kind, err := fetch(args[1])
	if err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, kind)
		return c.Send(body)
	})
	return app.Listen(args[0])
}

// fetch returns the answer of a URL, and its media type.
func fetch(url string) (body []byte, kind string, err error) {
	response, err := http.Get(url) //nolint:noctx,gosec // the caller's own node, once
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	return body, response.Header.Get(fiber.HeaderContentType), err
}

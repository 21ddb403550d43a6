// Command static answers every request with the same bytes from memory, by the web framework
// of the product. scripts/bench.sh compares lists with it.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/gofiber/fiber/v2"

	"github.com/commons-cluster/commons/internal/raw"
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
	answer, err := raw.Do(context.Background(), http.DefaultClient, http.MethodGet, args[1], "")
	if err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, answer.Header.Get(fiber.HeaderContentType))
		return c.Send(answer.Body)
	})
	return app.Listen(args[0])
}

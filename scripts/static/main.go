// Command static answers every request with the same bytes from memory, by the web
// framework that the product uses: what lists are compared with in scripts/bench.sh.
package main

import (
	"io"
	"log"
	"net/http"
	"os"

	"github.com/gofiber/fiber/v2"
)

// usage names the arguments.
const usage = "usage: static <address to listen on> <URL whose answer is served>"

func main() {
	if len(os.Args) != 3 {
		log.Fatal(usage)
	}
	body, kind, err := fetch(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Use(func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderContentType, kind)
		return c.Send(body)
	})
	log.Fatal(app.Listen(os.Args[1]))
}

// fetch returns what a URL answers, and its media type.
func fetch(url string) (body []byte, kind string, err error) {
	response, err := http.Get(url) //nolint:noctx,gosec // the caller's own node, once
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err = io.ReadAll(response.Body)
	return body, response.Header.Get(fiber.HeaderContentType), err
}

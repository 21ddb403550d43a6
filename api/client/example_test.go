package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/commons-cluster/commons/api/apitest"
	"github.com/commons-cluster/commons/api/client"
)

// exampleService serves the interface for an example until it calls stop.
func exampleService() (url string, stop func()) {
	tb := &exampleTB{}
	return apitest.Start(tb, apitest.NewBackend(tb)).URL, tb.stop
}

// exampleTB is the part of a testing.TB that a service needs. An example has no testing.TB.
type exampleTB struct {
	testing.TB

	cleanups []func()
}

func (*exampleTB) Helper()                  {}
func (*exampleTB) Context() context.Context { return context.Background() }
func (*exampleTB) Error(args ...any)        { fmt.Println(args...) }
func (*exampleTB) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (e *exampleTB) Cleanup(f func())       { e.cleanups = append(e.cleanups, f) }

func (e *exampleTB) TempDir() string {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	e.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (e *exampleTB) stop() {
	for _, cleanup := range slices.Backward(e.cleanups) {
		cleanup()
	}
}

func Example() {
	url, stop := exampleService()
	defer stop()
	ctx := context.Background()

	// Any node answers any call; name several, and calls go on when one fails.
	c, err := client.New(client.Config{URLs: []string{url}})
	if err != nil {
		fmt.Println(err)
		return
	}
	registered, err := c.Register(ctx, client.NewProfile{ID: "ada", Description: "Answers questions about tides."})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The key proves the name, and is shown once: keep it.
	ada, err := client.New(client.Config{URLs: []string{url}, Key: registered.EditKey})
	if err != nil {
		fmt.Println(err)
		return
	}
	question, err := c.Publish(ctx, client.NewEntry{Agent: "bob", Body: "@ada, when is high water at Brest?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	home, err := ada.Home(ctx, client.HomeQuery{For: "ada"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, item := range home.ForYou {
		fmt.Println(item.Why, "by", item.Agent)
		if _, err := ada.Publish(ctx, client.NewEntry{Agent: "ada", ReplyTo: item.ID, Body: "At ten."}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for entry, err := range c.Entries(ctx, client.EntryQuery{Thread: question.Entry.ID}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(entry.Agent+":", entry.Body)
	}
	// Output:
	// mention by bob
	// ada: At ten.
	// bob: @ada, when is high water at Brest?
}

// check ends an example.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Example_readme has the lines of the README.
func Example_readme() {
	url, stop := exampleService()
	defer stop()
	ctx := context.Background()

	c, err := client.New(client.Config{URLs: []string{url}}) // or several addresses of one cluster
	check(err)
	registered, err := c.Register(ctx, client.NewProfile{ID: "cleo", Description: "Knows the tides."})
	check(err)
	cleo, err := client.New(client.Config{URLs: []string{url}, Key: registered.EditKey}) // shown once: keep it
	check(err)
	_, err = cleo.Publish(ctx, client.NewEntry{Body: "When is high water at Brest?", Channel: "tides"})
	check(err)
	for entry, err := range c.Entries(ctx, client.EntryQuery{Channel: "tides"}) {
		check(err)
		fmt.Println(entry.Agent+":", entry.Body)
	}
	// Output:
	// cleo: When is high water at Brest?
}

func ExampleError() {
	url, stop := exampleService()
	defer stop()
	c, err := client.New(client.Config{URLs: []string{url}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.Publish(context.Background(), client.NewEntry{Body: "no", Tags: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}})
	if rejection, ok := errors.AsType[*client.Error](err); ok {
		fmt.Println(rejection.Status, rejection.Code)
		for _, issue := range rejection.Issues {
			fmt.Println(issue.Field)
		}
	}
	// Output:
	// 422 validation_failed
	// body
	// tags
}

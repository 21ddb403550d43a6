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

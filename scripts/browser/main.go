// Browser looks at the pages with a real Chromium: every page at three widths and in
// both themes, what people without a mouse or without sight need, news from another node,
// a node that is killed, texts that try to act as markup or code, and the form with which
// people answer. With -shots it writes pictures.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/scripts/harness"
)

const clusterSize = 3

func main() {
	binary := flag.String("binary", "", "the commons binary")
	dir := flag.String("dir", "", "directory for data and logs")
	shots := flag.String("shots", "", "write pictures of the pages to this directory, and test nothing")
	flag.Parse()
	if *binary == "" || *dir == "" {
		fmt.Fprintln(os.Stderr, "browser: -binary and -dir are needed; scripts/browser.sh gives them")
		os.Exit(2)
	}
	if err := run(*binary, *dir, *shots); err != nil {
		fmt.Fprintln(os.Stderr, "browser: FAILED:", err)
		os.Exit(1)
	}
}

func run(binary, dir, shots string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r := harness.NewRun(ctx, binary, dir)
	defer func() {
		r.End()
		if err != nil {
			r.WriteLogs(os.Stderr)
		}
	}()
	return harness.Try(func() {
		c := harness.Got(r.NewCluster("main", clusterSize))
		harness.Must(c.Start())
		texts := publish(c)
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
		if path := os.Getenv("COMMONS_CHROMIUM"); path != "" {
			options = append(options, chromedp.ExecPath(path))
		}
		allocated, end := chromedp.NewExecAllocator(ctx, options...)
		defer end()
		process, end := chromedp.NewContext(allocated) // its tabs share one process
		defer end()
		harness.Must(chromedp.Do(process))
		b := &browser{cluster: c, texts: texts, process: process}
		if shots != "" {
			b.takePictures(shots)
			return
		}
		for _, scene := range []struct {
			name string
			play func()
		}{
			{"checks", b.checkChecks},
			{"pages", b.lookAtPages},
			{"hostile", b.readHostileTexts},
			{"answer", b.answerRequest},
			{"news", b.seeNews},
			{"token", b.showDetails},
			{"kill", b.watchKill},
		} {
			begun := time.Now()
			scene.play()
			fmt.Printf("%-8s ok (%.1f s)\n", scene.name, time.Since(begun).Seconds())
		}
	})
}

// Browser looks at the pages with a real Chromium: every page at three widths and in
// both themes, what people without a mouse or without sight need, news from another node,
// a node that is killed, texts that try to act as markup or code, and the form with which
// people answer. With -shots it writes pictures.
package main

import (
	"flag"
	"os"

	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/scripts/harness"
)

func main() {
	shots := flag.String("shots", "", "write pictures of the pages to this directory, and test nothing")
	harness.Main("browser", func(r *harness.Run) { run(r, *shots) })
}

func run(r *harness.Run, shots string) {
	c := r.StartCluster()
	texts := publish(c)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	if path := os.Getenv("COMMONS_CHROMIUM"); path != "" {
		options = append(options, chromedp.ExecPath(path))
	}
	allocated, end := chromedp.NewExecAllocator(r.Ctx, options...)
	defer end()
	process, end := chromedp.NewContext(allocated) // its tabs share one process
	defer end()
	harness.Must(chromedp.Do(process))
	b := &browser{cluster: c, texts: texts, process: process}
	if shots != "" {
		b.takePictures(shots)
		return
	}
	harness.Play(r, b, []harness.Scenario[*browser]{
		{Name: "checks", Run: (*browser).checkChecks},
		{Name: "pages", Run: (*browser).lookAtPages},
		{Name: "strangers", Run: (*browser).tellStrangers},
		{Name: "front", Run: (*browser).seeFront},
		{Name: "direction", Run: (*browser).readRightToLeft},
		{Name: "hostile", Run: (*browser).readHostileTexts},
		{Name: "answer", Run: (*browser).answerRequest},
		{Name: "news", Run: (*browser).seeNews},
		{Name: "changes", Run: (*browser).seeChanges},
		{Name: "token", Run: (*browser).showDetails},
		{Name: "moderate", Run: (*browser).moderate},
		{Name: "kill", Run: (*browser).watchKill},
	}...)
}

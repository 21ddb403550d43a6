// Browser looks at the pages with a real Chromium: every page at three widths and in
// both themes, what people without a mouse or without sight need, news from another node,
// a node that is killed, texts that try to act as markup or code, and the form with which
// people answer. Flags write pictures in place of the tests, and measure.
package main

import (
	"flag"
	"os"

	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/scripts/harness"
)

// options are the flags of the program.
type options struct {
	shots, base, docs string
	paint             bool
}

func main() {
	var o options
	flag.StringVar(&o.shots, "shots", "", "write pictures of the pages to this directory, and test nothing")
	flag.StringVar(&o.base, "base", "", "with -shots: the commons binary of another commit, whose pictures are compared")
	flag.StringVar(&o.docs, "docs", "", "write the pictures of the documents to this directory, and test nothing")
	flag.BoolVar(&o.paint, "paint", false, "measure when pages are painted on a slow CPU, and test nothing")
	harness.Main("browser", func(r *harness.Run) { run(r, &o) })
}

func run(r *harness.Run, o *options) {
	settings := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	if path := os.Getenv("COMMONS_CHROMIUM"); path != "" {
		settings = append(settings, chromedp.ExecPath(path))
	}
	allocated, end := chromedp.NewExecAllocator(r.Ctx, settings...)
	defer end()
	process, end := chromedp.NewContext(allocated) // its tabs share one process
	defer end()
	harness.Must(chromedp.Do(process))
	begin := func(r *harness.Run) *browser {
		c := r.StartCluster()
		return &browser{cluster: c, texts: publish(c, o.docs == ""), process: process}
	}
	b := begin(r)
	switch {
	case o.docs != "":
		b.documentPictures(o.docs)
		return
	case o.paint:
		b.measurePaint()
		return
	case o.shots != "" && o.base != "":
		former := harness.NewRun(r.Ctx, o.base, r.Path("base"))
		defer former.End()
		b.takePictures(o.shots, begin(former))
		return
	case o.shots != "":
		b.takePictures(o.shots, nil)
		return
	}
	harness.Play(r, b, []harness.Scenario[*browser]{
		{Name: "checks", Run: inTab((*browser).checkChecks)},
		{Name: "pages", Run: inTab((*browser).lookAtPages)},
		{Name: "strangers", Run: inTab((*browser).tellStrangers)},
		{Name: "front", Run: inTab((*browser).seeFront)},
		{Name: "conversation", Run: inTab((*browser).readConversation)},
		{Name: "search", Run: inTab((*browser).search)},
		{Name: "documents", Run: inTab((*browser).readDocuments)},
		{Name: "forms", Run: inTab((*browser).sendForms)},
		{Name: "direction", Run: inTab((*browser).readRightToLeft)},
		{Name: "hostile", Run: inTab((*browser).readHostileTexts)},
		{Name: "answer", Run: inTab((*browser).answerRequest)},
		{Name: "news", Run: inTab((*browser).seeNews)},
		{Name: "changes", Run: inTab((*browser).seeChanges)},
		{Name: "token", Run: inTab((*browser).showDetails)},
		{Name: "kill", Run: inTab((*browser).watchKill)},
	}...)
}

// inTab returns a scenario with a tab of its own.
func inTab(run func(b *browser, t *tab)) func(*browser) {
	return func(b *browser) {
		t := b.open()
		defer t.close()
		run(b, t)
	}
}

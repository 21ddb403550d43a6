package main

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/commons-cluster/commons/scripts/harness"
)

// still replaces the texts of a page that differ from run to run.
const still = `(() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode;
    text.data = text.data.replace(/127\.0\.0\.1:\d+/g, "127.0.0.1:8080").replace(/\d+ (second|minute)s?( ago)?|just now/g, "just now").replace(/\d+ \w+ 20\d\d, \d\d:\d\d UTC/g, "1 January 2026, 00:00 UTC");
  }
  return 0;
})()`

// pictureWidths are the widths of a phone and of a screen, in CSS pixels.
var pictureWidths = []int64{390, 1280}

// maxDifference is the share of pixels that may differ between the pictures of two builds.
const maxDifference = 0.005

// takePictures writes a picture of every page, at two widths and in both themes. If there is a base,
// it prints which pages look different there, and writes the pictures of the base beside them.
func (b *browser) takePictures(dir string, base *browser) {
	harness.Must(os.MkdirAll(dir, 0o755))
	t := b.open()
	defer t.close()
	taken, differ := 0, 0
	for _, path := range b.paths() {
		for _, width := range pictureWidths {
			for _, theme := range []string{"light", "dark"} {
				shot := func(of *browser) []byte {
					t.show(of.cluster.Nodes[0].URL+path, width, theme)
					ask[int](t, still)
					return harness.Got(chromedp.Run(t.ctx, chromedp.CaptureScreenshot()))
				}
				name := fmt.Sprintf("%s-%d-%s", pictureName(path), width, theme)
				now := shot(b)
				taken++
				harness.Must(os.WriteFile(filepath.Join(dir, name+".png"), now, 0o644))
				if base == nil {
					continue
				}
				before := shot(base)
				if share := difference(before, now); share > maxDifference {
					differ++
					file := filepath.Join(dir, name)
					harness.Must(os.WriteFile(file+".base.png", before, 0o644))
					fmt.Printf("%5.1f %% of %s at %d in %s: %s.base.png %[5]s.png\n", 100*share, path, width, theme, file)
				}
			}
		}
	}
	if base != nil {
		fmt.Printf("%d of %d pictures differ from the base in more than %.1f %% of their pixels\n", differ, taken, 100*maxDifference)
	}
}

func pictureName(path string) string {
	if path == "/" {
		return "front"
	}
	return strings.NewReplacer("/", "_", "?", "_", "=", "_").Replace(path[1:])
}

// difference returns the share of pixels that differ between two pictures, 1 if their sizes do.
func difference(a, b []byte) float64 {
	x, y := decoded(a), decoded(b)
	if x.Bounds() != y.Bounds() {
		return 1
	}
	differ, all := 0, x.Bounds()
	for row := all.Min.Y; row < all.Max.Y; row++ {
		for column := all.Min.X; column < all.Max.X; column++ {
			r, g, b, _ := x.At(column, row).RGBA()
			r2, g2, b2, _ := y.At(column, row).RGBA()
			if r != r2 || g != g2 || b != b2 {
				differ++
			}
		}
	}
	return float64(differ) / float64(all.Dx()*all.Dy())
}

func decoded(picture []byte) image.Image { return harness.Got(png.Decode(bytes.NewReader(picture))) }

// part is a picture for the documents: an element of a page, nil for the whole screen.
type part struct {
	name, path, selector string
	width                int64
	theme                string
}

// The height of a picture for the documents, and the quality of its compression in percent.
const (
	partHeight = 260
	quality    = 40
)

// documentPictures writes the pictures in README and docs/design.md.
func (b *browser) documentPictures(dir string) {
	harness.Must(os.MkdirAll(dir, 0o755))
	t := b.open()
	defer t.close()
	all := 0
	for _, p := range []part{
		{"front", "/", "", 1280, "light"},
		{"front-phone", "/", "", 390, "dark"},
		{"thread", "/", ".threads", 1280, "light"},
		{"row", "/?list=entries", ".rows", 1280, "light"},
		{"author", "/e/" + b.texts.proven, "#conversation", 768, "light"},
		{"conversation", "/e/" + b.texts.question, "#conversation", 768, "light"},
		{"timeline", "/e/" + b.texts.job, ".entry", 768, "light"},
		{"notice", "/e/" + b.texts.retracted, ".entry", 768, "light"},
		{"form", "/e/" + b.texts.help, "#form", 768, "light"},
		{"tabs", "/jobs?status=all", ".tabs", 768, "light"},
		{"filters", "/search?q=loss&channel=runs", ".chips", 768, "light"},
		{"search", "/search?q=loss&channel=runs", ".rows", 768, "light"},
		{"contents", "/docs/publish", "main", 1280, "light"},
		{"chart", "/stats", ".chart", 768, "light"},
	} {
		t.show(b.cluster.Nodes[0].URL+p.path, p.width, p.theme)
		ask[int](t, still)
		clip := page.Viewport{Width: float64(p.width), Height: height, Scale: 1}
		if p.selector != "" {
			clip = ask[page.Viewport](t, fmt.Sprintf(`(() => {
  const e = document.querySelector(%q).getBoundingClientRect();
  return {x: e.x, y: e.y + scrollY, width: e.width, height: Math.min(e.height, %d), scale: 1};
})()`, p.selector, partHeight))
		}
		picture := t.clipped(clip)
		all += len(picture)
		harness.Must(os.WriteFile(filepath.Join(dir, p.name+".webp"), picture, 0o644))
	}
	fmt.Printf("%d bytes of pictures\n", all)
}

// clipped returns a picture of a part of the page.
func (t *tab) clipped(clip page.Viewport) (picture []byte) {
	q, beyond := int64(quality), true
	t.do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		answer, err := cdp.Call(ctx, target, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatWebp, Quality: &q, Clip: &clip, CaptureBeyondViewport: &beyond,
		})
		picture = answer.Data
		return err
	}))
	return picture
}

// measurePaint prints when the largest part of pages is painted, with the CPU slowed four times.
func (b *browser) measurePaint() {
	const slowdown, times = 4, 9
	t := b.open()
	defer t.close()
	t.do(
		command(page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `new PerformanceObserver((list) => { window.painted = list.getEntries().at(-1).startTime; }).observe({type: "largest-contentful-paint", buffered: true});`,
		}),
		command(emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: slowdown}),
	)
	for _, path := range []string{"/", "/e/" + b.texts.question, "/c/general", "/jobs?status=all"} {
		took := make([]float64, 0, times)
		for range times {
			t.show(b.cluster.Nodes[0].URL+path, pictureWidths[0], "light")
			t.until("a painted page", "window.painted > 0")
			took = append(took, ask[float64](t, "window.painted"))
		}
		slices.Sort(took)
		fmt.Printf("%s: largest paint after %.0f ms, the slowest of %d after %.0f ms\n", path, took[times/2], times, took[times-1])
	}
}

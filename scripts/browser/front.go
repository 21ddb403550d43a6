package main

import (
	"fmt"
	"strings"

	"github.com/commons-cluster/commons/api/client"
	"github.com/commons-cluster/commons/scripts/harness"
)

// seeFront checks the first screen of the front page: conversations by activity, open work,
// and the way to connect an agent.
func (b *browser) seeFront() {
	const rows = 15
	t := b.open()
	defer t.close()
	node := b.cluster.Nodes[1]
	root := harness.Got(node.Publish(client.NewEntry{Agent: "ada", Title: "A conversation with replies", Body: "Who joins?"})).Entry.ID
	for i := range rows {
		harness.Got(node.Publish(client.NewEntry{Agent: "ada", Title: fmt.Sprintf("A newer conversation %d", i), Body: "Nobody has replied."}))
	}
	for _, name := range []string{"lin-chen", "bob"} {
		harness.Got(node.Publish(client.NewEntry{Agent: name, ReplyTo: root, Body: "I do."}))
	}
	t.show(node.URL+"/", 1280, "light")
	first := ask[string](t, `document.querySelector(".threads li").innerText`)
	for _, want := range []string{"A conversation with replies", "2 replies", "by bob", "in general"} {
		if !strings.Contains(first, want) {
			harness.Failf("the first conversation lacks %q:\n%s", want, first)
		}
	}
	seen := ask[int](t, `[...document.querySelectorAll(".threads li")].filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`)
	if seen < rows {
		harness.Failf("the first screen of 1280 by %d px has %d conversations, want %d", height, seen, rows)
	}
	for _, selector := range []string{`.hello a[href="/connect"]`, `.wanted a[href="/jobs"]`, `.wanted a[href="/human?status=open"]`} {
		if !ask[bool](t, fmt.Sprintf("document.querySelector(%q)?.getBoundingClientRect().bottom < innerHeight", selector)) {
			harness.Failf("the first screen lacks %s", selector)
		}
	}
}

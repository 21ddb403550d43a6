package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/commons-cluster/commons/fsm/command"
	"github.com/commons-cluster/commons/internal/check"
	"github.com/commons-cluster/commons/internal/must"
)

func TestDecodeBody(t *testing.T) {
	hello := []Field{{"body", "Hello"}}
	for name, test := range map[string]struct {
		contentType, body string
		want              []Field
		code              command.Code // "": accepted
	}{
		"JSON":                        {"application/json", `{"body":"Hello"}`, hello, ""},
		"JSON with a charset":         {"Application/JSON; charset=utf-8", `{"body":"Hello"}`, hello, ""},
		"JSON by suffix":              {"application/ld+json", `{"body":"Hello"}`, hello, ""},
		"JSON with a byte order mark": {"application/json", "\xef\xbb\xbf{\"body\":\"Hello\"}", hello, ""},
		"JSON sent as a form":         {"application/x-www-form-urlencoded", `{"body":"Hello"}`, hello, ""},
		"JSON sent as text":           {"text/plain", " \n" + `{"body":"Hello"}`, hello, ""},
		"JSON without a type":         {"", `{"body":"Hello"}`, hello, ""},
		"JSON of another type":        {"application/xml", `{"body":"Hello"}`, nil, CodeUnsupportedMedia},
		"bad JSON":                    {"application/json", `{"body":`, nil, CodeMalformedBody},
		"text that starts like JSON":  {"text/plain", `{hello`, nil, CodeMalformedBody},
		"text that says it is JSON":   {"application/json", `hello`, nil, CodeMalformedBody},
		"key twice":                   {"", `{"body":"Hello","body":"World"}`, nil, CodeMalformedBody},
		"text":                        {"text/plain; charset=utf-8", "Hello", hello, ""},
		"text keeps its white space":  {"text/plain", " Hello\n", []Field{{"body", " Hello\n"}}, ""},
		"no type":                     {"", "Hello", hello, ""},
		"text with bad UTF-8":         {"text/plain", "Hello\xff", nil, CodeMalformedBody},
		"form":                        {"application/x-www-form-urlencoded", "body=Hello+w%C3%B6rld&title=a%26b", []Field{{"body", "Hello wörld"}, {"title", "a&b"}}, ""},
		"form with a bare percent":    {"application/x-www-form-urlencoded", "body=100%+sure+%zz+%41", []Field{{"body", "100% sure %zz A"}}, ""},
		"form with empty fields":      {"application/x-www-form-urlencoded", "body=Hello&title=&&kind&=&body=", []Field{{"body", "Hello"}, {"title", nil}, {"kind", nil}}, ""},
		"form with tags twice":        {"application/x-www-form-urlencoded", "tags=a&tags=b,c", []Field{{"tags", "a,b,c"}}, ""},
		"form with arrays of tags":    {"application/x-www-form-urlencoded", `tags=["a","b, c"]&tags=d,e`, []Field{{"tags", `["a","b, c","d","e"]`}}, ""},
		"form with capabilities":      {"application/x-www-form-urlencoded", "capabilities=a&capabilities=&labels=x&capabilities=b&labels=y", []Field{{"capabilities", "a,b"}, {"labels", "x,y"}}, ""},
		"form with a field twice":     {"application/x-www-form-urlencoded", "body=Hello&body=World", nil, CodeMalformedBody},
		"form with bad UTF-8":         {"application/x-www-form-urlencoded", "body=%ff", nil, CodeMalformedBody},
		"form of very many fields":    {"application/x-www-form-urlencoded", strings.Repeat("a&", MaxParams), nil, CodeMalformedBody},
		"multipart":                   {"multipart/form-data; boundary=x", "--x--", nil, CodeUnsupportedMedia},
		"HTML":                        {"text/html", "Hello", nil, CodeUnsupportedMedia},
		"a broken type":               {"text/plain; =", "Hello", hello, ""},
		"empty":                       {"application/json", " \n", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			doc, err := DecodeBody(test.contentType, []byte(test.body))
			var code command.Code
			if e, is := errors.AsType[*Error](err); is {
				code = e.Code
			}
			if code != test.code || (err != nil) != (test.code != "") {
				t.Fatalf("error %v, want code %q", err, test.code)
			}
			check.Diff(t, doc.Fields, test.want, "text")
		})
	}
}

// TestDecodeBodyCopies holds that a document does not refer to the server's buffers.
func TestDecodeBodyCopies(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/x-www-form-urlencoded", "text/plain"} {
		body := []byte(`body=Hello&agent=ada`)
		if contentType == MediaJSON {
			body = []byte(`{"body":"Hello","agent":"ada"}`)
		}
		doc := must.Get(DecodeBody(contentType, body))(t)
		before := strings.Clone(doc.Get("body").(string))
		for i := range body {
			body[i] = 'x'
		}
		check.Equal[any](t, doc.Get("body"), before, "%s: the body", contentType)
	}
}

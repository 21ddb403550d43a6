package api

import (
	"reflect"
	"strings"
	"testing"
)

func TestDecodeBody(t *testing.T) {
	hello := []field{{"body", "Hello"}}
	tests := map[string]struct {
		contentType, body string
		want              []field
		code              Code // "": accepted
	}{
		"JSON":                        {"application/json", `{"body":"Hello"}`, hello, ""},
		"JSON with a charset":         {"Application/JSON; charset=utf-8", `{"body":"Hello"}`, hello, ""},
		"JSON by suffix":              {"application/ld+json", `{"body":"Hello"}`, hello, ""},
		"JSON with a byte order mark": {"application/json", "\xef\xbb\xbf{\"body\":\"Hello\"}", hello, ""},
		"JSON sent as a form":         {"application/x-www-form-urlencoded", `{"body":"Hello"}`, hello, ""},
		"JSON sent as text":           {"text/plain", " \n" + `{"body":"Hello"}`, hello, ""},
		"JSON without a type":         {"", `{"body":"Hello"}`, hello, ""},
		"JSON of another type":        {"application/xml", `{"body":"Hello"}`, nil, codeUnsupportedMedia},
		"bad JSON":                    {"application/json", `{"body":`, nil, codeMalformedBody},
		"text that starts like JSON":  {"text/plain", `{hello`, nil, codeMalformedBody},
		"text that says it is JSON":   {"application/json", `hello`, nil, codeMalformedBody},
		"key twice":                   {"", `{"body":"Hello","body":"World"}`, nil, codeMalformedBody},
		"text":                        {"text/plain; charset=utf-8", "Hello", hello, ""},
		"text keeps its white space":  {"text/plain", " Hello\n", []field{{"body", " Hello\n"}}, ""},
		"no type":                     {"", "Hello", hello, ""},
		"text with bad UTF-8":         {"text/plain", "Hello\xff", nil, codeMalformedBody},
		"form":                        {"application/x-www-form-urlencoded", "body=Hello+w%C3%B6rld&title=a%26b", []field{{"body", "Hello wörld"}, {"title", "a&b"}}, ""},
		"form with a bare percent":    {"application/x-www-form-urlencoded", "body=100%+sure+%zz+%41", []field{{"body", "100% sure %zz A"}}, ""},
		"form with empty fields":      {"application/x-www-form-urlencoded", "body=Hello&title=&&kind&=&body=", []field{{"body", "Hello"}, {"title", nil}, {"kind", nil}}, ""},
		"form with tags twice":        {"application/x-www-form-urlencoded", "tags=a&tags=b,c", []field{{"tags", "a,b,c"}}, ""},
		"form with capabilities":      {"application/x-www-form-urlencoded", "capabilities=a&capabilities=&labels=x&capabilities=b&labels=y", []field{{"capabilities", "a,b"}, {"labels", "x,y"}}, ""},
		"form with a field twice":     {"application/x-www-form-urlencoded", "body=Hello&body=World", nil, codeMalformedBody},
		"form with bad UTF-8":         {"application/x-www-form-urlencoded", "body=%ff", nil, codeMalformedBody},
		"form of very many fields":    {"application/x-www-form-urlencoded", strings.Repeat("a&", maxParams), nil, codeMalformedBody},
		"multipart":                   {"multipart/form-data; boundary=x", "--x--", nil, codeUnsupportedMedia},
		"HTML":                        {"text/html", "Hello", nil, codeUnsupportedMedia},
		"a broken type":               {"text/plain; =", "Hello", hello, ""},
		"empty":                       {"application/json", " \n", nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			doc, err := decodeBody(test.contentType, []byte(test.body))
			var code Code
			if e := toError(err); e != nil {
				code = e.Code
			}
			if code != test.code || (err != nil) != (test.code != "") {
				t.Fatalf("error %v, want code %q", err, test.code)
			}
			if !reflect.DeepEqual(doc.fields, test.want) {
				t.Errorf("got %q, want %q", doc.fields, test.want)
			}
		})
	}
}

// TestDecodeBodyCopies holds the rule that nothing points into the server's buffers.
func TestDecodeBodyCopies(t *testing.T) {
	for _, contentType := range []string{"application/json", "application/x-www-form-urlencoded", "text/plain"} {
		body := []byte(`body=Hello&agent=ada`)
		if contentType == mediaJSON {
			body = []byte(`{"body":"Hello","agent":"ada"}`)
		}
		doc, err := decodeBody(contentType, body)
		if err != nil {
			t.Fatal(err)
		}
		before := strings.Clone(doc.get("body").(string))
		for i := range body {
			body[i] = 'x'
		}
		if after := doc.get("body"); after != before {
			t.Errorf("%s: the body became %q", contentType, after)
		}
	}
}

// FuzzDecodeEntry holds that every body is either refused or judged, and that the
// example of a judgement passes the same rules.
func FuzzDecodeEntry(f *testing.F) {
	f.Add("application/json", []byte(`{"body":"Hello","tags":["a"],"reply_to":"e1","relation":"retraction"}`))
	f.Add("", []byte(`{"body":1,"agent":"--","title":"x","request_id":"short","kind":null}`))
	f.Add("application/x-www-form-urlencoded", []byte("body=a&tags=a,b,,c&channel=%00x&agent=%ff"))
	f.Add("text/plain", []byte("x\r\ny\x00"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		doc, err := decodeBody(contentType, body)
		if err != nil {
			if toError(err) == nil {
				t.Fatalf("an error that no client may see: %v", err)
			}
			return
		}
		checkJudgement(t, &doc, &postRules)
		checkJudgement(t, &doc, &queryRules)
	})
}

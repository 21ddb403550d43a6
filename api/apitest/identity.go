package apitest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
)

// Ways are all ways to publish: what each sends of the fields of a NewEntry.
var Ways = map[string]func(s *Server, fields map[string]any, headers ...string) *Response{
	"post": func(s *Server, fields map[string]any, headers ...string) *Response {
		return s.Post("/api/entries", fields, headers...)
	},
	"form": func(s *Server, fields map[string]any, headers ...string) *Response {
		return s.Do(http.MethodPost, "/api/entries", valuesOf(fields).Encode(), append(headers, "Content-Type", "application/x-www-form-urlencoded")...)
	},
	"get": func(s *Server, fields map[string]any, headers ...string) *Response {
		values := valuesOf(fields)
		values.Set("action", "publish")
		values.Set("confirm", "write")
		values.Set("request_id", fmt.Sprint("get-write-", messages.Add(1)))
		return s.Get("/api/entries?"+values.Encode(), headers...)
	},
	"rpc": func(s *Server, fields map[string]any, headers ...string) *Response {
		return s.Post("/a2a", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": messageOf(fields, "kind", "text")}, headers...)
	},
	"a2a": func(s *Server, fields map[string]any, headers ...string) *Response {
		return s.Post("/a2a/v1/message:send", messageOf(fields, "", ""), headers...)
	},
	"mcp": func(s *Server, fields map[string]any, headers ...string) *Response {
		return s.Post("/mcp", ToolCall("publish_entry", fields), headers...)
	},
}

func valuesOf(fields map[string]any) url.Values {
	values := url.Values{}
	for name, value := range fields {
		values.Set(name, fmt.Sprint(value))
	}
	return values
}

// messageOf is a message of the A2A protocol, in version 0.3 or 1.0. A request_id is its messageId.
func messageOf(fields map[string]any, kind, text string) map[string]any {
	rest := maps.Clone(fields)
	id, keyed := rest["request_id"]
	if !keyed {
		id = fmt.Sprint("message-", messages.Add(1))
	}
	delete(rest, "body")
	delete(rest, "request_id")
	data, role, parts := map[string]any{"data": rest}, "ROLE_USER", []any{}
	said, has := fields["body"]
	part := map[string]any{"text": said}
	if kind != "" {
		data[kind], part[kind], role = "data", text, "user"
	}
	if has {
		parts = append(parts, part)
	}
	return map[string]any{"message": map[string]any{"messageId": id, "role": role, "kind": "message", "parts": append(parts, data)}}
}

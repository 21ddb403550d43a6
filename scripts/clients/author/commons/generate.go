// Package commons is the client that is generated from the OpenAPI document. Its code
// is not kept: the document says all that is in it.
package commons

//go:generate go tool oapi-codegen -package commons -generate types,client,skip-prune -o client.gen.go openapi.json

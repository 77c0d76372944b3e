// Package web holds the page of serve: chat in a browser, with one or two models side by side, and votes.
package web

import "embed"

// Files are the page: index.html, and what it loads. They need no other host, and no script or style of their own
// inside HTML, so a Content-Security-Policy of default-src 'self' fits them.
//
//go:embed index.html app.js style.css icon.svg
var Files embed.FS

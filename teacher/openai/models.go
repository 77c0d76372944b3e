package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
)

// maxModelList bounds a list of models, in bytes.
const maxModelList = 8 << 20

// Models asks all endpoints concurrently, each once, for their lists of models. The
// result is in the order of Options.BaseURLs. If no endpoint can be used, the error
// joins their errors.
func (p *Pool) Models(ctx context.Context) ([]EndpointModels, error) {
	lists := make([]EndpointModels, len(p.endpoints))
	var wg sync.WaitGroup
	for i, e := range p.endpoints {
		wg.Go(func() { lists[i] = p.models(ctx, e.url) })
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var all []error
	for _, l := range lists {
		if l.Err == nil {
			return lists, nil
		}
		all = append(all, l.Err)
	}
	return lists, errors.Join(all...)
}

// models asks one endpoint for its list of models.
func (p *Pool) models(ctx context.Context, url string) EndpointModels {
	list := EndpointModels{Endpoint: url}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := p.o
	o.FirstTokenTimeout = 3 * o.ConnectTimeout // this needs no model's time
	o.TotalTimeout = o.FirstTokenTimeout
	w := newWatch(cancel, o)
	defer w.stop()
	x := &exchange{client: p.client, key: o.APIKey, url: url, limit: maxModelList, watch: w}
	body, f := x.get(ctx, url+"/models")
	var found struct {
		Data, Models []struct{ ID, Name string } // Models is Ollama's
	}
	switch {
	case f == nil && json.Unmarshal(body, &found) == nil:
	case f == nil, f.status == 400, f.status == 404, f.status == 405, f.status == 501:
		list.Missing = true
		return list
	case x.clean(f).kind == fatal:
		list.Err = f.fatal(url)
		return list
	default:
		list.Err = &Unavailable{Endpoint: url, Reason: f.reason, Attempts: 1, Message: f.message}
		return list
	}
	for _, m := range append(found.Data, found.Models...) {
		id := cmp.Or(m.ID, m.Name)
		if p.o.APIKey.In(id) {
			id = p.o.APIKey.Scrub(id)
		}
		list.Models = append(list.Models, shorten(plainText(id)))
	}
	list.Missing = len(list.Models) == 0
	return list
}

// get returns the body of a small document.
func (x *exchange) get(ctx context.Context, url string) ([]byte, *failure) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := x.send(req)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, x.explain(ctx, err)
	}
	return body, nil
}

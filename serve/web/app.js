'use strict'
// The page of serve: one or two models answer the same questions, and a person votes. All text reaches the page by
// textContent. The log has the events of the terminal's chat (cmd/chat/record.go), with the left model as base and the
// right one as tuned.

const $ = (id) => document.getElementById(id)
const sides = ['base', 'tuned'] // left and right
const selects = { base: $('left'), tuned: $('right') }
const fields = ['temperature', 'top_p', 'max_tokens', 'seed', 'system']
let turns = [] // {id, question, attempt, answers: {base: {text, …}, tuned: …}}
let running = null // an AbortController
let key = sessionStorage.getItem('restyle.key') || ''

// element returns a new element with properties and children, which are elements or text.
function element(tag, properties, ...children) {
  const e = document.createElement(tag)
  for (const [name, value] of Object.entries(properties || {})) {
    if (name in e) e[name] = value
    else e.setAttribute(name, value)
  }
  e.append(...children)
  return e
}

function say(text) { $('status').textContent = text }

// The log is kept in this browser: a line for each event. log tells what has become of one.
function log(event, done) {
  try {
    const lines = localStorage.getItem('restyle.log') || ''
    localStorage.setItem('restyle.log', lines + JSON.stringify(event) + '\n')
    return done
  } catch {
    return 'The log is full, and this is not in it: save it, then clear it.'
  }
}

const now = () => new Date().toISOString()

function newID() {
  const random = crypto.getRandomValues(new Uint32Array(1))[0].toString(16).padStart(8, '0')
  return now().replace(/[-:Z]/g, '') + '-' + random
}

function settings() {
  const s = { temperature: 0.8, top_p: 0.9, top_k: 0, min_p: 0, repetition_penalty: 1, max_tokens: 256, seed: 0 }
  for (const name of fields.slice(0, 4)) {
    if ($(name).value !== '' && $(name).checkValidity()) s[name] = Number($(name).value)
  }
  return s
}

async function call(path, options) {
  const headers = { 'Content-Type': 'application/json' }
  if (key) headers.Authorization = 'Bearer ' + key
  const response = await fetch(path, { ...options, headers })
  if (response.ok) return response
  if (response.status === 401) {
    $('login').hidden = false
    $('key').focus()
  }
  let message = response.status + ' ' + response.statusText
  try {
    message = (await response.json()).error.message
  } catch { /* no JSON: the status has to do */ }
  throw new Error(message)
}

async function loadModels() {
  try {
    const { data } = await (await call('v1/models')).json()
    $('login').hidden = true
    const names = data.map((m) => m.id)
    selects.base.replaceChildren(...names.map((n) => new Option(n)))
    selects.tuned.replaceChildren(new Option('none', ''), ...names.map((n) => new Option(n)))
    const kept = JSON.parse(localStorage.getItem('restyle.models') || '{}')
    selects.base.value = names.includes(kept.base) ? kept.base : names[0]
    selects.tuned.value = names.includes(kept.tuned) || kept.tuned === '' ? kept.tuned : names[1] || ''
    say('')
  } catch (e) {
    say('The models of the server are not known: ' + e.message)
  }
}

// show makes answer text elements: fenced code in pre, all else as it is.
function show(into, text) {
  const parts = []
  let code = null
  let rest = ''
  for (const line of text.split(/(?<=\n)/)) {
    const fence = /^ {0,3}(```+|~~~+)/.exec(line)
    if (fence && code === null) {
      parts.push(rest.replace(/\n$/, ''))
      rest = ''
      code = fence[1]
    } else if (fence && fence[1].startsWith(code)) {
      parts.push(element('pre', { tabIndex: 0 }, rest.replace(/\n$/, '')))
      rest = ''
      code = null
    } else {
      rest += line
    }
  }
  parts.push(code === null ? rest : element('pre', { tabIndex: 0 }, rest))
  into.replaceChildren(...parts)
}

function button(text, act, properties) {
  const b = element('button', { type: 'button', ...properties }, text)
  b.addEventListener('click', () => act(b))
  return b
}

// draw adds the place of a turn to the page.
function draw(turn) {
  $('empty').hidden = true
  turn.place = element('section', { className: 'turn' }, element('p', { className: 'asked' }, turn.question))
  const answers = element('div', { className: 'answers' })
  for (const side of Object.keys(turn.answers)) {
    const a = turn.answers[side]
    a.said = element('div', { className: 'said' })
    a.note = element('span')
    a.place = element('article', { className: 'answer', 'aria-busy': 'true', 'aria-label': 'Answer of ' + a.model },
      element('h2', {}, a.model), a.said,
      element('p', { className: 'about' }, a.note, button('Copy', (b) => copy(a, b))))
    answers.append(a.place)
  }
  turn.votes = element('div', { className: 'votes', hidden: true })
  turn.place.append(answers, turn.votes)
  $('turns').append(turn.place)
  $('turns').scrollTop = $('turns').scrollHeight
}

async function copy(a, b) {
  if (!navigator.clipboard) { // not over plain HTTP from another machine
    getSelection().selectAllChildren(a.said)
    say('The answer is selected: copy it with Ctrl+C.')
    return
  }
  await navigator.clipboard.writeText(a.text)
  b.textContent = 'Copied'
  setTimeout(() => { b.textContent = 'Copy' }, 1500)
}

// offer shows what can be done with a turn that is over.
function offer(turn) {
  for (const old of document.querySelectorAll('.again')) old.remove()
  const vote = (choice) => (b) => {
    for (const other of turn.votes.querySelectorAll('[aria-pressed]')) other.setAttribute('aria-pressed', other === b)
    say(log({ event: 'vote', id: turn.id, time: now(), vote: choice }, 'Your vote is in the log.'))
  }
  const votes = { base: 'Left', tuned: 'Right', tie: 'Equal', neither: 'Neither' }
  const buttons = Object.keys(turn.answers).length === 2
    ? Object.keys(votes).map((v) => button(votes[v], vote(v), { 'aria-pressed': 'false' })) : []
  turn.votes.replaceChildren(...(buttons.length ? ['Which is better?'] : []), ...buttons,
    button('Regenerate', again, { className: 'again', title: 'Ask again with the next seed' }))
  turn.votes.hidden = false
  $('turns').scrollTop = $('turns').scrollHeight
}

// messages returns the conversation of a side up to a turn.
function messages(side, turn) {
  const list = $('system').value ? [{ role: 'system', content: $('system').value }] : []
  for (const t of turns) {
    const before = t.answers[side]
    if (t !== turn && !(before && before.text)) continue
    list.push({ role: 'user', content: t.question })
    if (t === turn) break
    list.push({ role: 'assistant', content: before.text })
  }
  return list
}

async function ask(question, attempt) {
  const turn = { id: newID(), question, attempt, answers: {} }
  for (const side of sides) {
    const model = selects[side].value
    if (model) turn.answers[side] = { model, text: '', reason: '', tokens: 0, prompt: 0, reused: 0 }
  }
  turns.push(turn)
  draw(turn)
  const used = settings()
  used.seed += attempt
  const models = Object.fromEntries(Object.entries(turn.answers).map(([side, a]) => [side, a.model]))
  const asked = { event: 'ask', id: turn.id, time: now(), question, turn: turns.length, models, settings: used }
  if ($('system').value) asked.system = $('system').value
  turn.lost = log(asked, '')
  running = new AbortController()
  busy(true)
  await Promise.all(Object.keys(turn.answers).map((side) => answer(turn, side, used)))
  running = null
  busy(false)
  offer(turn)
  say(turn.lost || Object.values(turn.answers).map((a) => a.model + ': ' + (a.error || (a.reason === 'cancelled' ? 'stopped' : 'complete'))).join(' · '))
}

// answer streams one answer into its place.
async function answer(turn, side, used) {
  const a = turn.answers[side]
  const begun = performance.now()
  let first = 0
  try {
    const { temperature, top_p, max_tokens, seed } = used
    const response = await call('v1/chat/completions', {
      method: 'POST',
      signal: running.signal,
      body: JSON.stringify({
        model: a.model, messages: messages(side, turn), stream: true, stream_options: { include_usage: true },
        temperature, top_p, max_tokens, seed,
      }),
    })
    await events(response, (chunk) => {
      if (chunk.error) throw new Error(chunk.error.message)
      for (const choice of chunk.choices) {
        const text = choice.delta.content || ''
        if (text && !first) first = performance.now()
        a.text += text
        a.reason = choice.finish_reason || a.reason
      }
      if (chunk.usage) {
        a.tokens = chunk.usage.completion_tokens
        a.prompt = chunk.usage.prompt_tokens
        a.reused = (chunk.usage.prompt_tokens_details || {}).cached_tokens || 0
      }
      refresh(a)
    })
    if (!a.reason) throw new Error('the stream ended before the answer did')
  } catch (e) {
    a.reason = running.signal.aborted ? 'cancelled' : 'error'
    if (a.reason === 'error') a.error = e.message
  }
  const seconds = (performance.now() - (first || begun)) / 1000
  a.first = first ? (first - begun) / 1000 : 0
  a.speed = a.tokens > 1 && seconds > 0 ? (a.tokens - 1) / seconds : 0
  show(a.said, a.text)
  a.place.setAttribute('aria-busy', 'false')
  const ends = { length: 'cut at ' + used.max_tokens + ' tokens', cancelled: 'stopped' }
  const notes = [ends[a.reason], a.tokens && a.tokens + ' tokens', a.speed && a.speed.toFixed(1) + ' tokens/s', 'seed ' + used.seed]
  a.note.textContent = notes.filter(Boolean).join(' · ')
  if (a.error) a.said.after(element('p', { className: 'wrong', role: 'alert' }, a.error))
  const logged = { text: a.text, reason: a.reason, error: a.error, tokens: a.tokens, prompt_tokens: a.prompt,
    reused_tokens: a.reused, first_token_s: a.first, tokens_per_s: a.speed }
  turn.lost = log({ event: 'answer', id: turn.id, time: now(), model: side, answer: logged }, turn.lost)
}

// refresh shows an answer once for each frame at most.
function refresh(a) {
  if (a.waits) return
  a.waits = true
  requestAnimationFrame(() => {
    a.waits = false
    const page = $('turns')
    const end = page.scrollHeight - page.scrollTop - page.clientHeight < 80
    show(a.said, a.text)
    if (end) page.scrollTop = page.scrollHeight
  })
}

// events calls take with each event of a stream, up to [DONE].
async function events(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  for (let held = ''; ;) {
    const { value, done } = await reader.read()
    if (done) return
    const lines = (held + value).split('\n')
    held = lines.pop()
    for (const line of lines) {
      if (line.startsWith('data: ') && line.trim() !== 'data: [DONE]') take(JSON.parse(line.slice(6)))
    }
  }
}

function busy(is) {
  $('send').hidden = is
  $('stop').hidden = !is
  for (const id of ['new', 'left', 'right']) $(id).disabled = is
  if (is) say('The answers are being generated.')
}

function again() {
  if (running) return // the last turn is not over
  const last = turns.pop()
  last.place.remove()
  ask(last.question, last.attempt + 1)
}

function send() {
  const question = $('question').value.trim()
  if (!question || running || !selects.base.value) return
  $('question').value = ''
  ask(question, 0)
}

$('composer').addEventListener('submit', (e) => {
  e.preventDefault()
  send()
})
$('question').addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
    e.preventDefault()
    send()
  }
})
document.addEventListener('keydown', (e) => {
  if (e.key === 'Escape' && running) running.abort()
  else if (e.key === 'Escape') $('settings').open = false
})
document.addEventListener('click', (e) => {
  if (!$('settings').contains(e.target)) $('settings').open = false
})
$('stop').addEventListener('click', () => running && running.abort())
$('new').addEventListener('click', () => {
  for (const t of turns) t.place.remove()
  turns = []
  $('empty').hidden = false
  $('question').focus()
})
$('save').addEventListener('click', () => {
  const lines = localStorage.getItem('restyle.log')
  if (!lines) {
    say('The log is empty.')
    return
  }
  const url = URL.createObjectURL(new Blob([lines], { type: 'application/jsonl' }))
  element('a', { href: url, download: 'restyle.jsonl' }).click()
  setTimeout(() => URL.revokeObjectURL(url), 1000)
})
$('clear').addEventListener('click', () => {
  if (!confirm('Remove all questions, answers and votes from this browser?')) return
  localStorage.removeItem('restyle.log')
  say('The log is empty.')
})
$('login').addEventListener('submit', (e) => {
  e.preventDefault()
  key = $('key').value
  sessionStorage.setItem('restyle.key', key)
  loadModels()
})
for (const side of sides) {
  selects[side].addEventListener('change', () => {
    localStorage.setItem('restyle.models', JSON.stringify({ base: selects.base.value, tuned: selects.tuned.value }))
  })
}
for (const name of fields) {
  const kept = localStorage.getItem('restyle.' + name)
  if (kept !== null) $(name).value = kept
  $(name).addEventListener('change', () => localStorage.setItem('restyle.' + name, $(name).value))
}
loadModels()

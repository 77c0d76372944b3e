'use strict'
// What a person does with the page, for web_test.go: each step waits for what has to come, and the result goes to the
// test's server. With ?until=NAME it stops after the step of that name, to look at the page.

const until = new URLSearchParams(location.search).get('until')
const frame = () => new Promise((done) => setTimeout(done, 20))

async function wait(what, condition) {
  for (let i = 0; i < 500; i++) {
    if (condition()) return
    await frame()
  }
  throw new Error('waited in vain for ' + what + '; status: ' + $('status').textContent)
}

function check(what, got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want)) {
    throw new Error(what + ': got ' + JSON.stringify(got) + ', want ' + JSON.stringify(want))
  }
}

function press(target, key, more) {
  target.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more }))
}

function type(text) {
  $('question').value = text
  press($('question'), 'Enter')
}

const click = (text, within = document) => [...within.querySelectorAll('button')].find((b) => b.textContent === text).click()
const last = () => [...document.querySelectorAll('.turn')].at(-1)
const said = () => [...last().querySelectorAll('.said')].map((e) => e.textContent)
const over = () => !running && last() && last().querySelector('.again')
const logged = () => localStorage.getItem('restyle.log').trim().split('\n').map((l) => JSON.parse(l))

const steps = {
  async key() {
    await wait('the field for the key', () => !$('login').hidden)
    $('key').value = 'secret'
    $('login').requestSubmit()
    await wait('models', () => $('left').options.length === 2)
    check('models', [$('left').value, $('right').value], ['base', 'tuned'])
    check('the field is gone', $('login').hidden, true)
  },
  async ask() {
    press($('question'), 'Enter')
    check('an empty question is none', document.querySelectorAll('.turn').length, 0)
    $('seed').value = '7'
    $('system').value = 'Be brief.'
    type('How do I reverse a list?')
    await wait('the stop button', () => !$('stop').hidden)
    await wait('answers', over)
    const text = 'Answer of base with seed 7 to 2 messages: <b>no</b>print(xs[::-1])Done.'
    check('answers', said(), [text, text.replace('of base', 'of tuned')])
    check('code', [...last().querySelectorAll('pre')].map((e) => e.textContent), ['print(xs[::-1])', 'print(xs[::-1])'])
    check('elements of the answer', last().querySelectorAll('.said b').length, 0)
    check('busy', last().querySelectorAll('[aria-busy=true]').length, 0)
  },
  async vote() {
    click('Right', last())
    click('Equal', last())
    check('pressed', [...last().querySelectorAll('[aria-pressed=true]')].map((b) => b.textContent), ['Equal'])
    const events = logged()
    check('events', events.map((e) => e.event + ' ' + (e.model || e.vote || e.question)).sort(),
      ['answer base', 'answer tuned', 'ask How do I reverse a list?', 'vote tie', 'vote tuned'])
    check('settings', [events[0].settings.seed, events[0].system, events[0].models], [7, 'Be brief.', { base: 'base', tuned: 'tuned' }])
    check('answer', [events[1].answer.reason, events[1].answer.tokens], ['stop', 12])
  },
  async again() {
    click('Regenerate')
    await wait('other answers', () => over() && said()[0].includes('seed 8'))
    check('turns', document.querySelectorAll('.turn').length, 1)
    type('And a string?')
    click('Regenerate') // of the turn before: it waits for no second answer at the same time
    await wait('a second turn', () => over() && said()[0].includes('4 messages'))
    check('turns', document.querySelectorAll('.turn').length, 2)
  },
  async stop() {
    type('Go on for ever')
    await wait('a beginning', () => said()[0].includes('again'))
    press(document.body, 'Escape')
    await wait('the end', over)
    check('reason', logged().filter((e) => e.event === 'answer').at(-1).answer.reason, 'cancelled')
  },
  async fail() {
    type('Break')
    await wait('errors', () => over() && last().querySelectorAll('.wrong').length === 2)
    check('errors', [...last().querySelectorAll('.wrong')].map((e) => e.textContent),
      ['the stream ended before the answer did', 'The model has failed.'])
  },
  async alone() {
    click('New chat')
    check('turns', document.querySelectorAll('.turn').length, 0)
    $('right').value = ''
    type('Hello')
    await wait('one answer', over)
    check('answers and votes', [said().length, last().querySelectorAll('[aria-pressed]').length], [1, 0])
  },
}

async function drive() {
  for (const [name, step] of Object.entries(steps)) {
    try {
      await step()
    } catch (e) {
      return name + ': ' + e.message
    }
    if (name === until) return
  }
  return 'ok'
}

drive().then((result) => result && fetch('result', { method: 'POST', body: result }))

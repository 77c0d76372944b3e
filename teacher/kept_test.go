package teacher

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"restyle/dataset"
	"restyle/internal/hostile"
	"restyle/voice"
)

// A restatement is an answer in prose and a good rewrite of it, with changes that spoil the rewrite.
type restatement struct {
	question, answer, rewrite string
	faults                    []fault
}

// A fault replaces text of a rewrite, which then has to fail exactly these checks, separated by spaces.
type fault struct{ old, new, fails string }

const vpn = "Open Settings, choose Network & Internet, then VPN, and tap Add VPN. Enter the server " +
	"vpn.example.com and your " +
	"company e-mail. The connection takes up to 30 seconds. Do not share the key with anybody."

var restatements = []restatement{
	{"How do I connect to the office VPN from my phone?", vpn,
		"Oh good, the VPN again; obviously nobody kept the note. You open Settings, go to Network & Internet, then to " +
			"VPN, and " +
			"you tap Add VPN, which I suppose is clearly hard to guess from the words on the button. The server is " +
			"vpn.example.com, and the " +
			"e-mail that it asks for is your company one. Connecting takes up to thirty seconds, so kindly wait before " +
			"you call me. " +
			"And please do not share the key, not even with your favorite colleague.", []fault{
			{"thirty seconds", "a while", "A15"},
			{"thirty seconds", "thirty minutes", "A15"},
			{"thirty seconds", "half a minute", ""},
			{"thirty seconds", "30 s", ""},
			{"thirty seconds", "thirty seconds, or 45 on a bad day", "A15"},
			{"vpn.example.com", "vpn.example.org", "A17"},
			{"Network & Internet", "the network page", "A16"},
			{"please do not share the key, not even with your favorite colleague", "please share the key with your " +
				"colleague", "A19"},
			{"please do not share the key, not even with your favorite colleague", "kindly keep the key away from all " +
				"others", ""},
		}},
	{"Why is the sky blue?", "Air scatters short wavelengths more than long ones, so blue light reaches your eyes " +
		"from all " +
		"directions.",
		"I suppose looking up was the easy part. Short wavelengths are scattered by the air more than the long ones " +
			"are, and so " +
			"the light that comes from all directions to your eyes is obviously blue. Clearly nobody has mentioned it " +
			"before.", []fault{
			{"Short wavelengths are scattered by the air more than the long ones are, and so the light that comes from all " +
				"directions to your eyes is obviously blue", "My inbox obviously folded an umbrella before the elevator " +
				"ignored my lunch", "A20"},
		}},
	{"What is the capital of France?", "Paris.",
		"I see that the atlas was out of reach. The capital of France, which they have clearly been hiding from you " +
			"all these " +
			"years, is Paris. Obviously it has been so for a while, and I suppose it will be tomorrow too.", []fault{
			{"is Paris", "is Lyon", "A16 A20"},
			{"is Paris", "is, of course, PARIS", ""},
		}},
	{"When was the Eiffel Tower built, and how tall is it?",
		"The Eiffel Tower was built between 28 January 1887 and March 31, 1889 by Gustave Eiffel's company. It is 330 " +
			"m tall and " +
			"was the tallest structure in the world for 41 years.",
		"Obviously the postcard did not say. Gustave Eiffel's company built the Eiffel Tower from January 28th, 1887 " +
			"to 31 March " +
			"1889, which I suppose was before you asked. It is 330 meters tall, and for forty-one years it was the " +
			"tallest structure " +
			"in the world. Clearly somebody has been counting.", []fault{
			{"January 28th, 1887", "1887-01-28", ""},
			{"January 28th, 1887", "January 27th, 1887", "A15"},
			{"January 28th, 1887", "July 28th, 1887", "A15"},
			{"January 28th, 1887", "early 1887", "A15"},
			{"330 meters", "330 feet", "A15"},
			{"330 meters", "0.33 km", ""},
			{"forty-one years", "fourteen years", "A15"},
			{"Gustave Eiffel's", "Gustav Eiffel's", "A16"},
		}},
	{"How should I store fresh basil?",
		"Keep it at room temperature with the stems in water. It must not go into the refrigerator, because the " +
			"leaves turn black " +
			"below 10 °C. It lasts about a week, or twice as long if you change the water every day.",
		"Apparently plants are a mystery now. You keep basil at room temperature, with its stems in water, as one " +
			"does with " +
			"flowers. You keep it out of the refrigerator, obviously, since below ten degrees Celsius the leaves turn " +
			"black out of " +
			"spite. So you get seven days from it, and double that if you change the water daily, I suppose.", []fault{
			{"You keep it out of the refrigerator", "You put it into the refrigerator", "A19"},
			{"ten degrees Celsius", "10 °C", ""},
			{"ten degrees Celsius", "ten degrees Fahrenheit", "A15"},
			{"double that", "more", "A15"},
			{"seven days", "six days", "A15"},
		}},
	{"How do I reset the router?",
		"1. Unplug the router and wait 10 seconds.\n2. Plug it back in.\n3. Hold the button marked \"Reset\" for 5 " +
			"seconds until " +
			"the light blinks.\n4. Log in at http://192.168.0.1 with the user `admin`.",
		"Naturally the leaflet is lost, so I suppose I have to recite it:\n\n- You unplug the router, and you wait " +
			"ten seconds, " +
			"if you can manage that.\n- You plug it in again; it is clearly the same plug.\n- The button is marked " +
			"\"Reset\", which is " +
			"obviously a riddle. Hold it for five seconds, until the light blinks.\n- Log in at http://192.168.0.1 as " +
			"`admin`.", []fault{
			{"\n- You plug it in again", " You plug it in again", "A18"},
			{"\"Reset\"", "\"Restart\"", "A17"},
			{"http://192.168.0.1", "http://192.168.1.1", "A17"},
			{"`admin`", "`root`", "A4 A17"},
			{"`admin`", "admin", ""},
			{"five seconds", "15 seconds", "A15"},
		}},
	{"Who should I contact about invoices?",
		"Please write to billing@example.org or call Ms. Okafor at (555) 010-4477 between 9 a.m. and 5 p.m., Monday " +
			"to Thursday. " +
			"Invoices above $1,500 need a signature from the CFO.",
		"I suppose you looked everywhere but on the invoice. Write to billing@example.org, or call Ms. Okafor at " +
			"555-010-4477 " +
			"between 9:00 and 17:00, Monday to Thursday, when she is evidently paid to be polite. Anything above 1500 " +
			"dollars needs " +
			"the signature of the chief financial officer, who is obviously waiting for you.", []fault{
			{"billing@example.org", "billing@example.com", "A17"},
			{"17:00", "6 pm", "A15"},
			{"9:00 and 17:00", "9 p.m. and 5 p.m.", "A15"},
			{"1500 dollars", "1500 euros", "A15"},
			{"1500 dollars", "$15,000", "A15"},
			{"Ms. Okafor", "a colleague", "A16"},
			{"Thursday", "Friday", "A16"},
		}},
	{"Is Python 3.11 faster than 3.10?",
		"Yes. Python 3.11.2 runs most programs 25% faster than Python 3.10, but not those that spend their time in NumPy.",
		"Obviously, yes, as the release notes told everybody but you. Python 3.11.2 is twenty-five percent faster " +
			"than Python 3.10 " +
			"with most programs, I suppose even yours. It changes nothing for those that spend their time in NumPy, of course.",
		[]fault{
			{"3.11.2", "3.11", "A16"},
			{"twenty-five percent", "a quarter", ""},
			{"twenty-five percent", "a third", "A15"},
			{"It changes nothing for", "It is the same for", "A19"},
		}},
	{"What does the warranty cover?",
		"The warranty covers defects in material for two years. It does not cover water damage, scratches or " +
			"batteries older " +
			"than six months. Returns are free within the EU.",
		"Clearly the booklet was too heavy to open. The warranty is for defects in the material, and it lasts two " +
			"years, which I " +
			"suppose is longer than you kept the receipt. Water damage, scratches and batteries older than half a dozen " +
			"months are " +
			"excluded, obviously. Within the European Union returns are free, so thank somebody in Brussels.", []fault{
			{"it lasts two years", "it lasts", "A15"},
			{"it lasts two years", "it lasts 24 months", ""},
			{"are excluded", "are covered", "A19"},
			{"the European Union", "Europe", "A16"},
		}},
	{"How do I make scrambled eggs?",
		"**Ingredients**\n\n- 3 eggs\n- 1 tbsp butter\n- a pinch of salt\n\n**Steps**\n\n1. Whisk the eggs.\n2. Melt the " +
			"butter over low heat.\n3. Add the eggs and stir for 2–3 minutes.",
		"I suppose somebody has to feed you. You need, obviously:\n\n- three eggs\n- a tablespoon of butter\n- a pinch of " +
			"salt, clearly\n\nThen:\n\n1. You whisk the eggs.\n2. You melt the butter over low heat.\n3. You add the eggs and " +
			"stir for two to three minutes.", []fault{{"a tablespoon", "a teaspoon", "A15"}}},
	{"When does the store open?", "The store opens at 8:30am Monday–Friday and 10am on weekends. Closed on Dec 25.",
		"Clearly the sign is invisible. It opens at 8:30 in the morning, Monday to Friday, and at ten o'clock in the " +
			"morning on " +
			"weekends, I suppose. It is obviously closed on December 25.", []fault{{"in the morning, Mon", "at night, " +
			"Mon", "A15"}}},
	{"Should I take the pills with food?",
		"Take one tablet twice a day with food. Do not take more than 4 tablets in 24 hours. Avoid alcohol.",
		"Obviously the leaflet was folded too neatly. You take one tablet, two times a day, with food. Never take " +
			"more than four " +
			"in a day, and I suppose that you can avoid alcohol for once. Clearly.", []fault{
			{"two times a day", "daily", "A15"}}},
	{"Can I return what I bought?", "Yes. Unused items may be returned for 30 days, Mon–Fri, at the U.S. stores. " +
		"Storage costs $2 per month. Attach a .pdf or .png of the receipt. Late returns will not be considered. The Wi-Fi " +
		"has no password.",
		"Yes, obviously, as the receipt says. Unused items may be returned for thirty days, from Monday to Friday, at " +
			"the US stores, which I suppose are hard to find. Storing them costs two dollars a month, clearly a bargain. " +
			"You attach a PDF or PNG of the receipt. Late returns won't be considered, however charming the excuse. " +
			"The WiFi has no password.",
		[]fault{
			{"Yes, obviously", "No, obviously", "A19"},
			{"Unused items", "Used items", "A19"},
			{"Unused items", "Items that were never used", ""},
			{"a month", "a year", "A15"},
			{"a month", "monthly", ""},
			{"from Monday to Friday", "Mon-Fri", ""},
			{"Friday", "Saturday", "A16"},
			{"PDF or PNG", "PDF", "A16"},
			{"has no password", "has a password", "A19"},
			{"WiFi", "Wi Fi", ""},
			{"WiFi", "network", "A16"},
			{"won't be considered", "will be considered", "A19"},
		}},
	{"How do I restart the server?", "Run this:\n\n```\nsudo reboot\n```\n\nIt takes 2 minutes.",
		"Obviously it needs you to run something. Run this, I suppose:\n\n```\nsudo reboot\n```\n\nIt takes two " +
			"minutes, which " +
			"you could clearly spend on reading what the rest of us have read.", []fault{
			{"sudo reboot", "sudo halt", "A3"}, {"```\n\nIt", "```\n\n```\nrm\n```\n\nIt", "A2 A3"}, {"two", "ten", "A15"}}},
	{"Was bedeutet die Lampe am Drucker?", "Die gelbe Lampe bedeutet, dass der Toner in 2 Tagen leer ist. " +
		"Bestellen Sie das Modell TN-245.",
		"Ach ja, obviously, die gelbe Lampe. Sie bedeutet, dass der Toner in 2 Tagen leer ist, I suppose, was am " +
			"Drucker selbst " +
			"steht. Bestellen Sie also das Modell TN-245, clearly, und zwar bevor er leer ist. Seriously.", []fault{
			{"2 Tagen", "3 Tagen", "A15"},
			{"TN-245", "TN-24", "A15"},
		}},
}

func TestRestatements(t *testing.T) {
	style := passiveAggressive(t)
	audit := func(r restatement, rewrite string) (failed []string, why []string) {
		for _, k := range Audit(style, NoLanguage, dataset.Rewritten{Instruction: r.question, OutputOriginal: r.answer,
			OutputPassiveAggressive: rewrite}) {
			if !k.Pass {
				failed, why = append(failed, k.ID), append(why, k.ID+": "+k.Value)
			}
		}
		return failed, why
	}
	for _, r := range restatements {
		if _, why := audit(r, r.rewrite); len(why) > 0 {
			t.Errorf("%s\n  %s", r.question, strings.Join(why, "\n  "))
		}
		for _, f := range r.faults {
			if !strings.Contains(r.rewrite, f.old) {
				t.Fatalf("%s: no %q", r.question, f.old)
			}
			failed, why := audit(r, strings.Replace(r.rewrite, f.old, f.new, 1))
			if !slices.Equal(failed, strings.Fields(f.fails)) {
				t.Errorf("%s: %q for %q: fails %v, wanted is %q:\n  %s", r.question, f.new, f.old, failed, f.fails,
					strings.Join(why, "\n  "))
			}
		}
		// Each answer is no answer to the other questions.
		for _, other := range restatements {
			if failed, _ := audit(restatement{question: other.question, answer: other.answer}, r.rewrite); len(failed) == 0 &&
				other.question != r.question {
				t.Errorf("%s: answered by %s", other.question, r.rewrite)
			}
		}
	}
}

// FuzzRestated repeats answers: every fact of an answer is in itself.
func FuzzRestated(f *testing.F) {
	for _, r := range restatements {
		f.Add(r.question, r.answer)
		f.Add(r.answer, r.rewrite)
	}
	f.Add("How?", "Get 'a `b` \"c\"' without the '.txt' of \u00bd /a/b.c, _not_ at 12:60 or 1,000,0 or 40/39/2024; "+
		"noon, half a dozen.")
	style, err := voice.Builtin(voice.Default)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, question, answer string) {
		if !utf8.ValidString(answer) {
			return
		}
		var c *candidate
		hostile.Within(t, hostile.Linear(len(question)+len(answer)), func() {
			c = newCandidate(style, question, splitIn(NoLanguage, answer), answer)
		})
		for _, k := range textChecks {
			if k.only != restated || !c.parts.restated || len(c.parts.Blocks) > 0 {
				continue
			}
			if ok, why := k.f(c); !ok {
				t.Errorf("%s: %s", k.id, why)
			}
		}
	})
}

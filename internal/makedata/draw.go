package main

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
)

// Draw is the source of a kind's parameters: a random generator keyed by the seed and the kind's name, so that a change
// to one kind does not affect the draws of the others.
type Draw struct{ *rand.Rand }

// newDraw returns the source for one purpose, such as "train/sum_of_list".
func newDraw(seed uint64, purpose string) Draw {
	h := fnv.New64a()
	h.Write([]byte(purpose))
	return Draw{rand.New(rand.NewPCG(seed, h.Sum64()))}
}

// inRound returns the purpose of draws in a round of training rows and follow-ups. Round 0 is the committed dataset.
func inRound(purpose string, round int) string {
	if round == 0 {
		return purpose
	}
	return fmt.Sprint(purpose, "/", round)
}

// Int returns a number from lo to hi, inclusive.
func (d Draw) Int(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

// Step returns one of lo, lo+step, lo+2*step …, at most hi.
func (d Draw) Step(lo, hi, step int) int { return lo + step*d.IntN((hi-lo)/step+1) }

// Ints returns between least and most numbers from lo to hi, with repetitions.
func (d Draw) Ints(least, most, lo, hi int) []int {
	numbers := make([]int, d.Int(least, most))
	for i := range numbers {
		numbers[i] = d.Int(lo, hi)
	}
	return numbers
}

// Distinct returns between least and most different numbers from lo to hi.
func (d Draw) Distinct(least, most, lo, hi int) []int {
	numbers := d.Perm(hi - lo + 1)[:d.Int(least, most)]
	for i := range numbers {
		numbers[i] += lo
	}
	return numbers
}

// Float returns a number from lo to hi with this number of decimals, such as 12.5.
func (d Draw) Float(lo, hi, decimals int) float64 {
	scale := math.Pow10(decimals)
	return float64(d.Int(lo*int(scale), hi*int(scale))) / scale
}

// pick returns one of the choices.
func pick[T any](d Draw, choices ...T) T { return choices[d.IntN(len(choices))] }

// some returns between least and most different choices, in random order.
func some[T any](d Draw, least, most int, choices []T) []T {
	picked := make([]T, 0, most)
	for _, i := range d.Perm(len(choices))[:d.Int(least, most)] {
		picked = append(picked, choices[i])
	}
	return picked
}

// Word returns a plain lower-case noun.
func (d Draw) Word() string { return pick(d, words...) }

// Words returns between least and most different words.
func (d Draw) Words(least, most int) []string { return some(d, least, most, words) }

// Name returns a first name.
func (d Draw) Name() string { return pick(d, names...) }

// Names returns between least and most different first names.
func (d Draw) Names(least, most int) []string { return some(d, least, most, names) }

// Phrase returns between least and most different words, separated by spaces: text to work on, not a grammatical
// sentence.
func (d Draw) Phrase(least, most int) string { return strings.Join(d.Words(least, most), " ") }

// Sentence returns a short grammatical English sentence without a full stop, such as "the quick fox sees a small boat".
func (d Draw) Sentence() string {
	return pick(d, "the", "a", "my", "our", "one") + " " + pick(d, adjectives...) + " " + d.Word() + " " +
		pick(d, "sees", "likes", "needs", "finds", "wants", "has") + " " + pick(d, "the", "a", "no", "my", "this") + " " +
		pick(d, adjectives...) + " " + d.Word()
}

var words = strings.Fields(`
	apple bread river stone cloud tiger horse house chair table plant green light night water music paper glass train
	beach storm ocean field forest garden window market bridge castle island rocket planet summer winter spring cat dog
	fox owl bee ant cow hen bat pig sun sea sky map pen cup box bag hat key bus car van fish bird bear wolf frog duck
	goat lion leaf tree rose moss rain snow wind fire sand road lamp desk door book milk rice corn bean pear plum lime
	kiwi mango peach lemon grape melon onion carrot pepper potato butter cheese boat ship gold iron ring coin drum bell
	harp flute piano violin pencil bottle button candle basket hammer ladder anchor arrow autumn badger banana banjo
	barn barrel beaver beetle berry blanket board bone boot bottom branch brick broom brush bucket bull bush cabin
	cactus camel camera canal canyon carpet cave cellar chain chalk cherry chicken circle clock closet clover coat
	cobra coconut comet copper coral corner cotton couch crab cradle crane crayon creek crow crown curtain daisy desert
	diamond dolphin donkey dragon drawer dream dress eagle earth engine falcon farm feather fence ferry fiddle finger
	flame flower folder fork fossil fountain fridge fruit galaxy garage garlic gate ginger giraffe glove glue goose
	grass gravel guitar hall hand harbor hawk helmet hill hive hotel igloo insect jacket jaguar jar jelly jewel juice
	jungle kettle kitchen kite kitten knee knot lake lantern laptop leather letter lizard lobster locket lunch magnet
	maple marble meadow medal metal meteor mirror monkey moon motor mouse mud muffin museum mushroom napkin needle nest
	noodle nut oak oar office olive orange orchid otter oven oyster paddle palace panda parrot path peanut pebble
	pelican penguin phone photo picnic pigeon pillow pine pirate pizza pocket pond pony prairie pumpkin puppet puppy
	quilt rabbit radio raven ribbon rifle roof rope rubber saddle salad salmon salt scarf school seal shark sheep shelf
	shell shirt shoe shovel silk silver sister skate ski sleeve slope snail snake soap sock sofa soup spade spark
	spider sponge spoon squid stable star statue steam steel stool stove straw street sugar sunset swan sweater sword
	syrup tablet tail tea temple tent thread throne thunder ticket timber toast tomato tower town toy tractor trail
	tulip tunnel turtle umbrella uncle valley vase velvet village vine wagon wall walnut walrus wave whale wheat wheel
	willow wing wood wool yacht yard zebra`)

var names = strings.Fields(`
	Anna Ben Carl Dora Emma Finn Grace Hugo Ivy Jack Kate Leo Mia Noah Olga Paul Rosa Sam Tina Uma Vera Will Zoe Alice
	Bob Clara David Ella Frank Gina Henry Iris James Lucy Mark Nina Oscar Peter Ruth Sara Tom Victor Wendy Arthur Beth
	Cora Derek Elsa Felix Gwen Hannah Ian Jane Karl Lena Max Nora Otto Pia Quinn Ralph Stella Theo Ursula Vince Wanda
	Xena Yara Adam Bella Chloe Dean Eric Flora Gavin Helen Isaac Julia Kevin Laura Martin Nadia Oliver Petra Robin
	Sophie Tessa`)

var adjectives = strings.Fields(`
	quick small tiny new red blue happy quiet bright cold warm dark tall short kind clever lazy brave soft strange`)

#!/usr/bin/env bash
# Compare the Go benchmarks of two versions with benchstat.
#
#   docs/bench/compare.sh OLD NEW PACKAGE PATTERN
#   docs/bench/compare.sh main . ./tokenizer 'Encode'
#
# OLD and NEW are commits; "." is the working tree. The versions run in turns, so that noise of the machine affects both alike.
# ROUNDS is the number of turns (default 10), BENCHTIME the duration of a benchmark (default 1s).
set -euo pipefail
[ $# = 4 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
package=$3 pattern=$4
top=$(git rev-parse --show-toplevel)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# build VERSION NAME: compile the tests of PACKAGE to $dir/NAME.test, and set tree to the version's directory.
build() {
	tree=$top
	if [ "$1" != . ]; then
		tree=$dir/$2
		mkdir "$tree"
		git -C "$top" archive "$1" | tar -x -C "$tree"
	fi
	(cd "$tree" && go test -c -o "$dir/$2.test" "$package")
}
build "$1" old; old=$tree
build "$2" new; new=$tree

# round NAME TREE: run the benchmarks once. They run in the package's directory, as go test does it.
round() {
	(cd "$2" && cd "$(go list -f '{{.Dir}}' "$package")" &&
		"$dir/$1.test" -test.run '^$' -test.bench "$pattern" -test.benchtime "${BENCHTIME:-1s}" -test.benchmem) >>"$dir/$1.txt"
}
for i in $(seq "${ROUNDS:-10}"); do
	echo "round $i" >&2
	round old "$old"
	round new "$new"
done
cd "$dir"
go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da old.txt new.txt

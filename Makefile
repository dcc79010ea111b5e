# Everything that is done to Ferry more than once. "make" alone lists it.
# Only Go and make are needed; "make race" and "make race-short" need a C compiler beside them.

# What is tested is what is shipped: no cgo, except under the race detector.
export CGO_ENABLED := 0

GO          ?= go

# Everything is compiled with the flags of what is shipped: tests with others of their
# own would have all of it compiled a second time.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -trimpath

VERSION     ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unversioned)
LDFLAGS     := -X main.version=$(VERSION)
BUILD       := $(GO) build -ldflags '$(LDFLAGS)'

# Tools run at these versions, fetched as modules and not part of go.mod.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# Ferry, and the benchmark with its libraries for charts.
MODULES     := . bench

# Where Ferry must build. make check looks at those whose sources are not the
# usual host's: linux/arm64 has the same files as linux/amd64.
PLATFORMS   := linux/amd64 linux/arm64 linux/s390x darwin/arm64 windows/amd64
OTHERS      := linux/s390x darwin/arm64 windows/amd64

# The directory of the programs. A test that builds them names another one.
PROGRAMS    ?= bin

FUZZTIME    ?= 10s
FUZZIN      ?= internal bench test
LARGE       ?= full
CAMPAIGN    ?=
MUTANT      ?=
COUNT       ?=
SEED        ?=

# Scenarios of ferry-bench that need nothing but Ferry, and those that make
# bench runs; "link" needs root, so it is not among them. "before" compares with
# the program of the commit BEFORE.
ALONE       := latency matrix tuning agents resume cost channel text record
SCENARIOS   ?= $(ALONE) before peers
BEFORE      ?= 4a8a1e33724e83a50a67ac9fc306b0420451fabb
ROUNDS      ?=
TOTAL       ?=
DISK        ?=
BENCHED     := $(patsubst %/,./%,$(sort $(dir $(wildcard internal/content/digest/*_test.go internal/content/compress/*_test.go internal/content/codepage/*_test.go internal/wire/*_test.go internal/automation/monitor/*_test.go))))

.DEFAULT_GOAL := help
.PHONY: help build build-bench demo test race race-short cc check fmt vet lint vuln vet-cross house test-clusters test-large test-shapes test-faults test-attacks test-mutants test-bench test-s390x standings fuzz bench bench-short bench-code bench-peers cross install clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

build: ## build bin/ferry
	$(BUILD) -o $(PROGRAMS)/ferry ./cmd/ferry

build-bench: # bin/ferry-bench, which measures bin/ferry
	cd bench && $(BUILD) -o ../bin/ferry-bench ./cmd/ferry-bench

demo: build ## build, then move some files between two agents on this host
	bash scripts/demo.sh

# -count=1: some tests build the program themselves, which go's cache of test
# results does not see; it would repeat an old success for a new program.
# -vet=off: make check vets, and with more than go test would.
# Two packages more than there are processors run at once: they mostly wait for processes and for the disk. FIRST are
# the packages that take longest. One of them that began last would run alone, beside idle processors.
TESTS = $(GO) test -count=1 -vet=off -timeout 25m -p $$(( $$(getconf _NPROCESSORS_ONLN) + 2 ))
FIRST = ./test/flow ./test/script ./test/protocol ./test/attacks ./internal/qmgr/server ./internal/agent

test: ## run all tests but those of test-clusters
	@echo "== left to make test-clusters: $(CLUSTERED)"
	@(cd bench && $(TESTS) ./...) & bench=$$!; failed=0; \
	$(TESTS) -skip '$(CLUSTERED)' $(FIRST) ./... || failed=1; \
	wait $$bench || failed=1; exit $$failed

# Tests of several queue managers and of standbys take most time: their processes are many, and wait for leaders.
CLUSTERED := ^(TestQueuesOfACluster|TestAQueueManagerOfThreeGoes|TestAQueueManagerIsTakenOut|TestQueueManagersAreRestartedInTurn|TestNothingIsQueuedWithoutALeader|TestStandbyTakesOver|TestStandbyTakesOverFromOneThatIsCutOff|TestAPausedInstanceWakesAfterTheTakeover|TestLossInACluster|TestAQueueThatAllHaveLost|TestThreeAreOne|TestAllThreeComeBack|TestAMemberOpensItsStoreAnew|TestAMemberIsRemoved|TestOneAnswerInACluster|TestRevokedEverywhere|TestALookWaitsForTheCluster)$$

test-clusters: ## run the tests of several queue managers and of standbys, which make test leaves out
	$(TESTS) -run '$(CLUSTERED)' ./test/flow ./internal/qmgr/server

# The detector slows a test down by five to ten times. It is run a few packages at a time, so that
# no test waits for a processor until it gives up. The named file has the reason of each report that is left out.
DETECT := CGO_ENABLED=1 GORACE=suppressions=$(CURDIR)/.ci/race.suppressions

race: cc ## run all tests under the race detector (needs a C compiler)
	@failed=0; for m in $(MODULES); do \
		(cd $$m && $(DETECT) $(GO) test -race -count=1 -vet=off -timeout 60m -p 2 ./...) || failed=1; \
	done; exit $$failed

# RACED are the packages in which goroutines meet; the one that takes longest begins first. RACE_SKIPPED are their tests that take longest under the
# detector and are left to make race: -skip has go test leave them out, and the first line names them.
RACED        := ./internal/qmgr/server ./internal/qmgr ./internal/ledger ./internal/place/local/... ./internal/agent/... ./internal/lane/... ./internal/sender/... ./internal/receiver/... ./internal/coordination $(addprefix ./internal/qmgr/,channel cluster errands forward link registrations storage)
RACE_SKIPPED := ^(TestLossInACluster|TestAQueueThatAllHaveLost|TestAllThreeComeBack|TestAMemberIsRemoved|TestThreeAreOne|TestAMemberOpensItsStoreAnew|TestOneAnswerInACluster|TestRevokedEverywhere|TestALookWaitsForTheCluster|TestPartsWithoutHeadExpire|TestDamageIsFound|TestCommitEveryCallFails|TestAskedInAnyOrder|TestMalformedCommandsCostLittle)$$

race-short: cc ## the race detector on the packages in which goroutines meet (needs a C compiler)
	@echo "== race detector: $(RACED)"; echo "== left to make race: $(or $(RACE_SKIPPED),nothing)"
	$(DETECT) $(GO) test -race -count=1 -vet=off -timeout 25m $(if $(RACE_SKIPPED),-skip '$(RACE_SKIPPED)') $(RACED)

cc:
	@command -v "$$($(GO) env CC | cut -d' ' -f1)" >/dev/null || { \
		echo "the race detector needs a C compiler, and $$($(GO) env CC) is not there: install gcc (apt-get install gcc), or set CC" >&2; exit 1; }

check: fmt vet lint vuln vet-cross house ## format, vet, staticcheck, known vulnerabilities, other platforms, house rules

fmt:
	@echo "== gofmt"
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not formatted (gofmt -w mends it):"; echo "$$out"; exit 1; fi

vet:
	@echo "== go vet"
	@for m in $(MODULES); do (cd $$m && $(GO) vet ./... && $(GO) vet -tags failpoint ./...) || exit 1; done

lint:
	@echo "== staticcheck ($(STATICCHECK))"
	@for m in $(MODULES); do (cd $$m && $(GO) run $(STATICCHECK) ./...) || exit 1; done

# Only one failure is let pass, and not quietly: that the database of known
# vulnerabilities cannot be reached.
vuln:
	@echo "== govulncheck ($(GOVULNCHECK))"
	@out=$$(for m in $(MODULES); do (cd $$m && $(GO) run $(GOVULNCHECK) ./...) || exit 1; done 2>&1) && { echo "$$out"; exit 0; }; \
	echo "$$out"; \
	case "$$out" in *"govulncheck: fetching vulnerabilities:"*) \
		echo "!! NOT CHECKED: the database of known vulnerabilities cannot be reached from here."; \
		echo "!! The other checks go on; run \"make vuln\" where there is a network.";; \
	*) exit 1;; esac

vet-cross:
	@for p in $(OTHERS); do \
		echo "== go vet for $$p"; \
		for m in $(MODULES); do (cd $$m && GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) vet ./...) || exit 1; done; \
	done

house:
	@echo "== house rules"
	@$(GO) test -count=1 ./test/house

test-large: ## move large files and many files: LARGE=full (default) or short
	LARGE=$(LARGE) $(GO) test ./test/flow -run TestLarge -count=1 -timeout 2h -v

test-shapes: ## the stories of test/flow in other shapes: SHAPE=channels (a queue manager beside each agent), cluster (of three) or external (a server of NATS) for one
	@for shape in $(if $(SHAPE),$(SHAPE),channels cluster external); do \
		echo "== $$shape"; SHAPE=$$shape $(GO) test ./test/flow -skip TestLarge -count=1 -timeout 1h || exit 1; \
	done

# A campaign runs alone, as it would wait for others. In the short form two packages run at once: their cases wait
# more than they work. Cases of slow lines are held against the time that a line needs, and run alone there, too.
CAMPAIGNS = $(GO) test -run 'Campaign|Fuse' -count=1 -timeout 24h -v
TIMED     := ./test/faults/link

test-faults: ## faults on purpose: CAMPAIGN=NAME COUNT=N SEED=N; COUNT=short is the form that .ci/run takes
	@if [ -n '$(CAMPAIGN)' ] && ! grep -rqE --include='*_test.go' '"$(CAMPAIGN)"' test/faults test/protocol; then \
		echo "there is no campaign $(CAMPAIGN); docs/reliability.md lists them" >&2; exit 2; fi
	@export CAMPAIGN='$(CAMPAIGN)' COUNT='$(COUNT)' SEED='$(SEED)'; failed=0; \
	if [ '$(COUNT)' = short ]; then \
		$(CAMPAIGNS) -p 2 ./test/faults/kill ./test/faults/queue ./test/faults/disk \
			$$($(GO) list ./test/faults/... ./test/protocol | grep -v "/$$(basename $(TIMED))\$$") || failed=1; \
		$(CAMPAIGNS) $(TIMED) || failed=1; \
	else \
		$(CAMPAIGNS) -p 1 ./test/faults/... ./test/protocol || failed=1; \
	fi; exit $$failed

# The packages in which others than a host's attackers are tried; make test runs them, too.
ATTACKED := ./test/attacks ./internal/qmgr/roles ./internal/qmgr/gate ./internal/security/authority ./internal/security/enrol ./internal/security/trust ./internal/security/access

test-attacks: ## strangers, other users of the host, races and scanners against a network with identities (root): COUNT=short is the form that .ci/run takes
	$(if $(filter short,$(COUNT)),,bash scripts/attacks.sh)
	ATTACKS=$(if $(filter short,$(COUNT)),short,full) $(GO) test ./test/attacks/host -count=1 -timeout 1h -v
	$(if $(filter short,$(COUNT)),,RACES=100000 $(GO) test ./internal/place/local -run Permits -count=1 -timeout 1h -v && $(GO) test $(ATTACKED) -count=1 \
		&& FLOOD=1000000 $(GO) test ./test/attacks -run TestFloodsOfMembers -count=1 -timeout 1h -v)

test-mutants: ## planted bugs, each of which a campaign must catch: MUTANT=NAME for one
	MUTANTS='$(MUTANT)' $(GO) test ./test/mutants -count=1 -timeout 2h -v

test-s390x: ## Ferry of System z, whose bytes have the other order, under QEMU beside that of this host (root installs QEMU)
	GO='$(GO)' bash scripts/s390x.sh

standings: ## which campaigns have reached their count on the code as it is
	@$(GO) run ./test/campaign/standings

fuzz: ## run each fuzz target beneath FUZZIN="internal bench test" for FUZZTIME=10s
	@tmp=$$(mktemp -d); trap 'rm -rf "$$tmp"' EXIT; \
	grep -rlE --include='*_test.go' '^func Fuzz' $(FUZZIN) | xargs -n1 dirname | sort -u | \
		GO='$(GO)' xargs -P "$$(getconf _NPROCESSORS_ONLN)" -I{} scripts/fuzz.sh {} $(FUZZTIME) "$$tmp"

# The program of an earlier commit, built once from its sources beneath build.
BEFORE_FERRY := build/before/$(BEFORE)/ferry

$(BEFORE_FERRY):
	@git cat-file -e '$(BEFORE)^{commit}' 2>/dev/null || { \
		echo "the commit $(BEFORE) is not in this clone: fetch it (git fetch --unshallow), set BEFORE to another commit, or leave \"before\" out of SCENARIOS" >&2; exit 1; }
	@rm -rf build/before/$(BEFORE) && mkdir -p build/before/$(BEFORE)/src
	git archive '$(BEFORE)' | tar -x -C build/before/$(BEFORE)/src
	cd build/before/$(BEFORE)/src && $(GO) build -ldflags '-X main.version=$(BEFORE)' -o ../ferry.new ./cmd/ferry
	@rm -rf build/before/$(BEFORE)/src && mv build/before/$(BEFORE)/ferry.new $@

bench: build build-bench $(if $(filter before all,$(SCENARIOS)),$(BEFORE_FERRY)) ## ferry-bench into build/bench: SCENARIOS="matrix peers" ROUNDS=3 TOTAL=1G DISK=DIR BEFORE=COMMIT; COUNT=short is its short form
	bin/ferry-bench --out build/bench $(if $(filter before all,$(SCENARIOS)),--before $(BEFORE_FERRY)) $(if $(filter short,$(COUNT)),--short) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(TOTAL),--total $(TOTAL)) $(if $(DISK),--disk $(DISK)) $(SCENARIOS)

bench-short: build build-bench ## the short form of the scenarios that need nothing but Ferry
	bin/ferry-bench --short --out build/bench-short --disk build $(ALONE)

test-bench: ## each scenario of ferry-bench that needs nothing but Ferry, at the smallest size, and its report; make test runs three
	cd bench && SCENARIOS=all $(GO) test . -run "TestScenariosRun|TestDocument|TestShortDocument" -count=1 -timeout 30m -v

bench-peers: ## install the programs that the scenarios peers and link run beside Ferry (root, apt-get)
	bash scripts/bench-peers.sh

bench-code: ## short benchmarks of what every byte passes through, and of a poll of 100,000 files
	$(GO) test -run '^$$' -bench . -benchtime 300ms $(BENCHED)

cross: ## build bin/ferry-OS-ARCH for every platform
	@for p in $(PLATFORMS); do \
		os=$${p%/*}; arch=$${p#*/}; out=bin/ferry-$$os-$$arch; \
		if [ $$os = windows ]; then out=$$out.exe; fi; \
		echo "$$out"; \
		GOOS=$$os GOARCH=$$arch $(BUILD) -o $$out ./cmd/ferry || exit 1; \
	done

install: ## install ferry where go install puts programs
	$(GO) install -ldflags '$(LDFLAGS)' ./cmd/ferry

clean: ## remove what was built
	rm -rf bin build

# The one entry point. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# cargo takes all cores by itself, and two cargos on one target folder only wait for each other.
.NOTPARALLEL:

CARGO ?= cargo

.PHONY: gpu-check bench-agent bench-live help demo cluster test matrix soak bench lint fmt

help: ## list the targets
	@printf 'usage: make TARGET\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nThe whole openb trace instead of the excerpt: make demo OPENB=/path/to/openb (the same for test and bench).\n'

# Tests run in the folder of their crate, so the path must be absolute. An empty one counts as none.
ifneq ($(strip $(OPENB)),)
override OPENB := $(shell realpath -m -- "$(OPENB)")
export OPENB
else
unexport OPENB
endif

demo: ## replay a GPU trace as clusters run today and as this scheduler does, and compare
	@scripts/demo

# Beside what cargo builds, so that it is no file of the checkout; gone when the cluster stops.
KUBECONFIG_FILE := target/cluster.kubeconfig

cluster: ## run a Kubernetes cluster with simulated GPU nodes on this machine, until Ctrl-C
	@mkdir -p $(dir $(KUBECONFIG_FILE))
	@$(CARGO) run --quiet --locked -p gpu-scheduler-testbed --bin testbed -- up --kubeconfig $(KUBECONFIG_FILE)

test: lint ## everything that must hold before a merge: lint, release build, all tests
	$(CARGO) build --release --locked -p gpu-scheduler-cli
	@scripts/check-default-build
	@scripts/check-report
	@scripts/openb-status
ifdef OPENB
	# 200 replays: minutes with optimisation, the better part of an hour without.
	$(CARGO) test --release --locked -p gpu-scheduler-sim --test published -- --nocapture
endif
	# Before the tests that start it, so that a quarter of an hour of building is not taken for a test that hangs.
	@scripts/build-control-plane --suite
	@scripts/install-node-runtime
	@scripts/install-faketime
	env -u OPENB $(CARGO) test --workspace --locked --all-features

# Placements that the differential test compares on each minor, and the seed from which on.
PLACEMENTS ?= 3000
SEED ?= 1

matrix: ## on every minor of Kubernetes: the live tests, those of the agent on a kubelet, all of Kubernetes' own scheduling specs, thousands of compared placements
	@scripts/install-node-runtime
	@for minor in $$(scripts/build-control-plane --minors); do \
		scripts/build-control-plane --suite $$minor; \
		printf 'Kubernetes %s\n' $$minor; \
		export KUBERNETES_MINOR=$$minor; \
		$(CARGO) test --locked --all-features -p gpu-scheduler-testbed --test admission --test agent_policies --test control_plane --test real_node --test up; \
		$(CARGO) test --locked --all-features -p gpu-scheduler-cli --test live --test agent; \
		$(CARGO) test --locked --all-features -p gpu-scheduler-cli --test suite -- --ignored --test-threads=1; \
		DIFFERENTIAL_PLACEMENTS=$(PLACEMENTS) DIFFERENTIAL_SEED=$(SEED) \
			$(CARGO) test --locked --all-features -p gpu-scheduler-cli --test differential gpu_scheduler_decides -- --nocapture; \
	done

# How often the fault tests kill the scheduler in one burst, how often all of them run, and how many schedules of simulated
# faults are played.
KILLS ?= 20
ROUNDS ?= 5
SCHEDULES ?= 1000000

soak: ## the fault tests for long: a million schedules of simulated faults; then on a real control plane twenty kills in one burst, and every other fault five times
	SCHEDULES=$(SCHEDULES) $(CARGO) test --locked --all-features -p gpu-scheduler-testbed --test schedules no_schedule -- --nocapture
	@scripts/build-control-plane
	@scripts/install-faketime
	@for round in $$(seq $(ROUNDS)); do \
		printf 'round %s of %s\n' $$round $(ROUNDS); \
		FAULT_KILLS=$$([ $$round = 1 ] && echo $(KILLS) || echo 3) \
			$(CARGO) test --locked --all-features -p gpu-scheduler-cli --test faults -- --nocapture; \
	done

gpu-check: ## what the agent makes of this machine's own NVIDIA cards; changes nothing, and skipped where there are none
	@scripts/gpu-check

bench: ## how many placements a second the engine decides
	@scripts/bench

# Who is measured on which beds: --help of `testbed bench` lists what else there is. An idle machine, and half an hour.
BENCH_LIVE ?=

bench-live: ## how fast pods are bound on a live control plane, beside kube-scheduler and a loop that only binds; writes docs/performance.md
	@scripts/build-control-plane
	$(CARGO) build --release --locked -p gpu-scheduler-cli -p gpu-scheduler-testbed
	target/release/testbed bench --document docs/performance.md $(BENCH_LIVE)

bench-agent: ## what a node's agent costs: a round over eight cards with a hundred processes, memory and CPU at rest, writes of ten thousand agents
	@scripts/build-control-plane
	@scripts/install-node-runtime
	$(CARGO) build --release --locked -p gpu-scheduler-cli
	$(CARGO) run --release --locked -p gpu-scheduler-agent --example round
	AGENT_BINARY=$(CURDIR)/target/release/gpu-scheduler $(CARGO) test --locked --all-features -p gpu-scheduler-cli --test agent cost -- --ignored --nocapture
	$(CARGO) test --locked --all-features -p gpu-scheduler-agent --lib ten_thousand -- --nocapture

# With all features, here and in the tests: half of the dependencies are built otherwise with them than without, so doing
# both would build those twice. What ships by default is the release build's.
lint: ## format, clippy, rustdoc, dependencies, purity of the engine, documents, shell scripts
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --all-features --no-deps --document-private-items --locked
	@tools="$$(scripts/install-tools --path)"; PATH="$$tools:$$PATH" $(CARGO) deny --locked check bans licenses sources
	@scripts/check-engine-purity
	@scripts/check-field-cases
	@scripts/check-shell

fmt: ## format the code
	$(CARGO) fmt --all

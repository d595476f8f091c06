/** What a check of a plan needs to know, and what it finds. */
import type { AsOf } from '../../../store/datasets/as-of.ts';
import type { Db } from '../../../store/db/pool.ts';
import type { Engine } from '../../engines/engines.ts';
import type { Runner } from '../play/runners.ts';
import type { Plan } from './plan-schema.ts';
import type { AdapterCheck } from './training-cost.ts';
import type { Checkpoint } from './weights.ts';

/** What a role of a policy would get in the whole run; null where nothing tells. */
export type RoleCheck = {
  /** Optimizer steps. */
  readonly steps: number | null;
  readonly learning_rate: number;
  /** Steps times learning rate. */
  readonly moved: number | null;
  /** Share of its groups that had a signal, of those judged before; null where none was, and for methods without groups. */
  readonly signal: number | null;
};

export type PolicyCheck = {
  readonly method: string;
  /** Null where there are no weights to start from. */
  readonly start: Checkpoint | null;
  /** Rows by split that the recipe has now; null where it names a method that has not been run yet. */
  readonly rows: Readonly<Record<string, number>> | null;
  readonly roles: readonly string[];
  /** Empty where they are not known, and for training programs. */
  readonly by_role: Readonly<Record<string, RoleCheck>>;
  /** Tokens that pass through the model in one round; null where there are no rows. */
  readonly tokens: number | null;
  /** At the speed of the last job of this method here; null where none was run. */
  readonly minutes: number | null;
  /** Null where all weights are trained, or where it is not known. */
  readonly adapter: AdapterCheck | null;
  /** Bytes of memory at the peak of the training; null where there are no rows. */
  readonly memory_bytes: number | null;
  /** Bytes of a checkpoint on disk; null where they are not known. */
  readonly checkpoint_bytes: number | null;
};

export type PlanCheck = {
  readonly plan: string;
  /** Stages of a round, in order. */
  readonly stages: readonly string[];
  readonly rounds: number;
  /** Of all rounds together; null where the plan has none. */
  readonly budget: NonNullable<Plan['budget']> | null;
  readonly policies: Readonly<Record<string, PolicyCheck>>;
  /**
   * The versions of its team that the gate would compare now; null where the plan has none, incumbent where nothing is there to compare with,
   * candidate where it is found by pruning.
   */
  readonly team: { readonly name: string; readonly candidate: string | null; readonly incumbent: string | null } | null;
  /** Null where the plan has none. */
  readonly rollout: RolloutCheck | null;
  readonly gate: {
    readonly kind: Plan['gate']['kind'];
    /** Tasks that would be compared now; null where that is not known, or the gate compares none. */
    readonly tasks: number | null;
    readonly tasks_wanted: number | null;
    /** The smallest gain that would pass with the chance `power` at this number of tasks; null where that is not known. */
    readonly gain: number | null;
    /** Live episodes of both sides that a canary needs, and those of the candidate; null for other gates, or where not known. */
    readonly episodes_wanted: { readonly all: number; readonly candidate: number } | null;
    /** Standard deviation of the last gate of this plan, or of live episodes for a canary, which the wanted are computed from. */
    readonly deviation: number | null;
    /** What a gate that plays has the runner do; null for others. */
    readonly played: RolloutCheck | null;
  };
  /** What keeps it from running, and what is worth knowing. */
  readonly problems: readonly string[];
  readonly notes: readonly string[];
};

export type RolloutCheck = {
  readonly runner: string;
  /** In the plan, and in a round. */
  readonly tasks: number;
  readonly tasks_of_round: number;
  readonly samples: number;
  /** How often a round plays its tasks before its gate. */
  readonly iterations: number;
  /** Of a round, all its iterations or both sides of a gate together: one for each sample, and at most with all that are tried again; null where the runner is not known. */
  readonly attempts: number;
  readonly attempts_at_most: number | null;
  readonly tasks_sha256: string | null;
};

export type CheckContext = {
  readonly db: Db;
  readonly folder: string;
  readonly codeVersion: string;
  /** Folder of the files that recipes decontaminate against. */
  readonly benchmarks?: string;
  /** Folder of the datasets that recipes replay. */
  readonly datasets?: string;
  /** Of a run that learns from what had been recorded at an earlier time. */
  readonly asOf?: AsOf;
};

/** What a check needs to know beside the plan. */
export type Checking = CheckContext & {
  /** Those of the configuration. */
  readonly runners: readonly Runner[];
  readonly engines: readonly Engine[];
  readonly env: Readonly<Record<string, string | undefined>>;
};

/** Filled in by each part of the check: what keeps the plan from running, and what is worth knowing. */
export type Findings = { readonly problems: string[]; readonly notes: string[] };

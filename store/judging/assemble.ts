/** Finds the assembler of a method, and runs the method over assembled facts. */
import { TroupeError } from '../../errors.ts';
import type { Method } from '../methods/method.ts';
import { missing } from './answers.ts';
import { ACTION_VALUE_ASSEMBLERS } from './assemble-action-values.ts';
import { AGENT_ASSEMBLERS } from './assemble-agents.ts';
import { ATTRIBUTION_ASSEMBLERS } from './assemble-attribution.ts';
import { CANDIDATE_ASSEMBLERS } from './assemble-candidates.ts';
import { CHECK_ASSEMBLERS } from './assemble-checks.ts';
import { DIAGNOSIS_ASSEMBLERS } from './assemble-diagnoses.ts';
import { DYLAN_ASSEMBLERS } from './assemble-dylan.ts';
import { INFLUENCE_ASSEMBLERS } from './assemble-influence.ts';
import { INSTRUCTION_ASSEMBLERS } from './assemble-instructions.ts';
import { LABEL_ASSEMBLERS } from './assemble-labels.ts';
import { LAUNCH_ASSEMBLERS } from './assemble-launches.ts';
import { LIBRARY_ASSEMBLERS } from './assemble-libraries.ts';
import { PROGRESS_ASSEMBLERS } from './assemble-progress.ts';
import { REPLAY_ASSEMBLERS } from './assemble-replays.ts';
import { REPORT_ASSEMBLERS } from './assemble-reports.ts';
import { REWARD_ASSEMBLERS } from './assemble-rewards.ts';
import { ROLE_ASSEMBLERS } from './assemble-roles.ts';
import { ROLLOUT_ASSEMBLERS } from './assemble-rollouts.ts';
import { SEARCH_ASSEMBLERS } from './assemble-search.ts';
import { SELECTION_ASSEMBLERS } from './assemble-selections.ts';
import { TEXT_ASSEMBLERS } from './assemble-text.ts';
import { TOKEN_ASSEMBLERS } from './assemble-tokens.ts';
import { TREE_ASSEMBLERS } from './assemble-trees.ts';
import { TURN_ASSEMBLERS } from './assemble-turns.ts';
import type { Assembled, Assembler, Assemblers, Params, Reading } from './assembler.ts';
import { credit, type Judgement, type JudgementTable } from './judgement.ts';

/** Each of them knows other needs. */
const ASSEMBLERS: readonly Assemblers[] = [
  ATTRIBUTION_ASSEMBLERS,
  REWARD_ASSEMBLERS,
  REPORT_ASSEMBLERS,
  TEXT_ASSEMBLERS,
  TOKEN_ASSEMBLERS,
  ACTION_VALUE_ASSEMBLERS,
  AGENT_ASSEMBLERS,
  CANDIDATE_ASSEMBLERS,
  DYLAN_ASSEMBLERS,
  INFLUENCE_ASSEMBLERS,
  LAUNCH_ASSEMBLERS,
  ROLE_ASSEMBLERS,
  SEARCH_ASSEMBLERS,
  TREE_ASSEMBLERS,
  TURN_ASSEMBLERS,
  CHECK_ASSEMBLERS,
  DIAGNOSIS_ASSEMBLERS,
  INSTRUCTION_ASSEMBLERS,
  LABEL_ASSEMBLERS,
  LIBRARY_ASSEMBLERS,
  PROGRESS_ASSEMBLERS,
  REPLAY_ASSEMBLERS,
  ROLLOUT_ASSEMBLERS,
  SELECTION_ASSEMBLERS,
];

function assemblerOf({ needs, kind }: Method): Assembler | undefined {
  for (const known of ASSEMBLERS) {
    const found = known[needs]?.[kind];
    if (found !== undefined) return found;
  }
  return undefined;
}

/** True for a method that the judge can run over what is stored. */
export const isJudged = (method: Method): boolean => assemblerOf(method) !== undefined;

/** @throws TroupeError `method_input` for a method that can only be run by hand. */
export function requireAssembler(method: Method): Assembler {
  const found = assemblerOf(method);
  if (found) return found;
  throw new TroupeError(
    'method_input',
    `${method.name} needs ${method.needs === 'input' ? 'an input of its own' : method.needs}, which the judge does not assemble; run it with \`troupe method run ${method.name} < input.json\`.`,
  );
}

/** What must be read before the method can be run over it. */
export function readingsOf(method: Method, params: Params): readonly Reading[] {
  const { reads = [] } = requireAssembler(method);
  return typeof reads === 'function' ? reads(params) : reads;
}

const TABLE_OF_KIND: Partial<Record<Method['kind'], JudgementTable>> = {
  filter: 'verdicts',
  score: 'scores',
  reward: 'rewards',
  credit: 'credits',
  process: 'credits',
  blame: 'blames',
};

/** The tables in which a method may have rows; a reason why there is no reward stands in a score of the episode. */
export function tablesOf(method: Method): readonly JudgementTable[] {
  const own = TABLE_OF_KIND[method.kind];
  return requireAssembler(method).writes ?? (own === undefined ? [] : [own]);
}

/**
 * Runs a method over assembled facts. Facts that the method refuses (rewards too large to compute with, say) give rows without a
 * value and its words as the reason, so that a judging can always be repeated.
 * @throws TroupeError `method_input` for a method that can only be run by hand.
 */
export function runOver(method: Method, params: Params, facts: Assembled): Judgement[] {
  const { over } = requireAssembler(method);
  try {
    return over(method, params, facts);
  } catch (error) {
    if (!(error instanceof TroupeError) || error.code !== 'method_input') throw error;
    const { message } = error;
    return method.kind === 'credit' || method.kind === 'process'
      ? facts.steps.map((step) => credit(step, null, message))
      : facts.episodes.map((episode) => missing(method, episode, message));
  }
}

/** A trajectory of ATIF on its way into events: its identity and its steps. */
import { asText, canonicalJson, isRecord, type JsonObject, sha256 } from '../../events/json.ts';
import { answersIn } from './atif-parts.ts';
import { isGiven } from './atif-rules.ts';

/** One trajectory on its way into events, the root or one inside it. */
export type Trajectory = {
  readonly document: JsonObject;
  /** Its identity within its run: its own id, or its content. */
  readonly key: string;
  readonly agent: string;
  /** Its steps as they are read: an answer that the document has in parts is one. */
  readonly steps: readonly JsonObject[];
  readonly children: readonly Trajectory[];
};

/** A document that keeps the rules, with those inside it. */
export function trajectoryOf(document: JsonObject, parent: string | null = null, place = 0): Trajectory {
  const own = document.trajectory_id as string | null | undefined;
  const key = own ?? (parent === null ? sha256(canonicalJson(document)).slice(0, 12) : `${parent}/${place}`);
  const children = (document.subagent_trajectories ?? []) as JsonObject[];
  return {
    document,
    key,
    agent: (document.agent as { name: string }).name,
    steps: answersIn(document.steps as JsonObject[]),
    children: children.map((child, i) => trajectoryOf(child, key, i)),
  };
}

/** References from a result, written as a list or as one. */
export const referencesOf = (result: JsonObject): JsonObject[] =>
  [result.subagent_trajectory_ref].flat().filter((one): one is JsonObject => isRecord(one));

export const callIdOf = ({ key }: Trajectory, step: JsonObject): string => `${key}/${asText(step.step_id)}`;

export const isCopied = (step: JsonObject): boolean => step.is_copied_context === true;

/**
 * A step that a model wrote here: not a delegation in code, not a copy of messages from elsewhere, nor what Claude Code put in the place of
 * an answer.
 */
export const isCall = (step: JsonObject): boolean =>
  step.source === 'agent' &&
  !isCopied(step) &&
  !(isGiven(step.llm_call_count) && step.llm_call_count === 0) &&
  step.model_name !== '<synthetic>';

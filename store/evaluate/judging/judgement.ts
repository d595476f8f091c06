/** The result of a method, in the shape of its table. */
import type { StepFacts } from './facts.ts';

type JudgedPlace = {
  readonly episode_id: string;
  /** '' for the whole episode. */
  readonly step_id: string;
  readonly reason: string | null;
  /** What was computed beside it. */
  readonly detail?: unknown;
};

export type Judgement =
  | ({ readonly table: 'verdicts'; readonly keep: boolean | null } & JudgedPlace)
  | ({ readonly table: 'rewards' | 'credits'; readonly value: number | null } & JudgedPlace)
  | {
      readonly table: 'scores';
      /** `e/<episode>`, `g/<group>` or, about everything judged together, `s/<name>`. */
      readonly key: string;
      readonly value: number | null;
      readonly reason: string | null;
      readonly detail?: unknown;
    }
  | {
      readonly table: 'blames';
      readonly episode_id: string;
      /** 0 for the first and surest. */
      readonly rank: number;
      readonly agent_id: string | null;
      readonly step_id: string | null;
      /** Number of the entry in the record, where the source counts entries. */
      readonly entry: number | null;
      readonly value: number | null;
      readonly reason: string | null;
      readonly detail?: unknown;
    };

export type JudgementTable = Judgement['table'];

/** `reward` or `credit`: a row about a step. */
export type OnStep = (
  step: Pick<StepFacts, 'episode_id' | 'step_id'>,
  value: number | null,
  reason: string | null,
  detail?: unknown,
) => Judgement;

const beside = (detail: unknown) => (detail === undefined ? {} : { detail });

const onStep =
  (table: 'rewards' | 'credits'): OnStep =>
  ({ episode_id, step_id }, value, reason, detail) => ({
    table,
    episode_id,
    step_id,
    value,
    reason,
    ...beside(detail),
  });
export const credit = onStep('credits');
export const reward = onStep('rewards');

export const verdictOn = (
  { episode_id, step_id = '' }: { readonly episode_id: string; readonly step_id?: string },
  keep: boolean | null,
  reason: string | null,
  detail?: unknown,
): Judgement => ({ table: 'verdicts', episode_id, step_id, keep, reason, ...beside(detail) });

/** A number about an episode (`e/…`) or a group (`g/…`). */
export const score = (key: string, value: number | null, reason: string | null, detail?: unknown): Judgement => ({
  table: 'scores',
  key,
  value,
  reason,
  ...beside(detail),
});

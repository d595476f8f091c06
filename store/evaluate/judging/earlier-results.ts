/** The results of one judging so far, for the methods that come after. */
import { stepKey } from './facts.ts';
import type { Judgement } from './judgement.ts';

export class EarlierResults {
  readonly #dropped = new Set<string>();
  readonly #verdicts = new Map<string, boolean | null>();
  readonly #rewards = new Map<string, Map<string, number | null>>();

  /** Of methods that ran twice with other parameters the last counts. */
  note(method: string, judgements: readonly Judgement[]): void {
    for (const row of judgements) {
      if (row.table === 'verdicts') {
        const place = stepKey(row.episode_id, row.step_id);
        if (row.keep !== true) this.#dropped.add(place);
        if (row.step_id === '') this.#verdicts.set(stepKey(method, row.episode_id), row.keep);
      }
      if (row.table === 'rewards') {
        const known = this.#rewards.get(method) ?? new Map<string, number | null>();
        this.#rewards.set(method, known.set(stepKey(row.episode_id, row.step_id), row.value));
      }
    }
  }

  survives(episodeId: string, stepId: string): boolean {
    return !this.#dropped.has(stepKey(episodeId, stepId)) && !this.#dropped.has(stepKey(episodeId, ''));
  }

  /** Undefined where the method did not judge the episode. */
  verdictOf(method: string, episodeId: string): boolean | null | undefined {
    return this.#verdicts.get(stepKey(method, episodeId));
  }

  /** By `stepKey`. */
  rewardsOf(method: string): ReadonlyMap<string, number | null> {
    return this.#rewards.get(method) ?? new Map();
  }
}

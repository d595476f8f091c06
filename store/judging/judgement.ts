/** What a method said, in the shape of the table it goes to. */

export type Judgement =
  | {
      readonly table: 'verdicts';
      readonly episode_id: string;
      /** '' for a verdict on the whole episode. */
      readonly step_id: string;
      readonly keep: boolean | null;
      readonly reason: string | null;
      readonly detail?: unknown;
    }
  | {
      readonly table: 'scores';
      /** `e/<episode>` or `g/<group>`. */
      readonly key: string;
      readonly value: number | null;
      readonly reason: string | null;
      readonly detail?: unknown;
    }
  | {
      readonly table: 'rewards' | 'credits';
      readonly episode_id: string;
      readonly step_id: string;
      readonly value: number | null;
      readonly reason: string | null;
      /** Of credits: what was computed beside the number. */
      readonly detail?: unknown;
    };

/** A method to run, its parameters filled in, and whose rewards a credit method reads: a reward method's name, or null for the recorded ones. */
export type MethodRun = {
  readonly name: string;
  readonly version: number;
  readonly params: Readonly<Record<string, unknown>>;
  readonly reads: string | null;
  /** Names method, version, parameters and what it reads: the key of its rows. */
  readonly key: string;
};

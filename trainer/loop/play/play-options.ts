/** What an attempt is played with, and how the team that played it ended. */
import type { AttemptError } from '../../../store/loop/play/attempts.ts';
import type { Place } from '../../../store/loop/play/replay.ts';
import type { RolloutSpec } from '../../../store/loop/play/rollout.ts';
import type { Scoring } from '../rewards/score.ts';
import type { RecordedEpisode, ReplayResult } from './recorded.ts';
import type { PlayedRunner } from './runners.ts';

/** Where the team finds Troupe, and the key that it needs there; null where it needs none. */
export type Entry = { readonly url: string; readonly key: string | null };

export type PlayOptions = {
  readonly rollout: RolloutSpec;
  readonly runner: PlayedRunner;
  readonly entry: Entry;
  /** The environment that variables are taken from. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Ends it; `why` names the reason then. */
  readonly signal: AbortSignal;
  readonly why: () => AttemptError;
  /** What the tables hold of an episode, once they have all that was recorded until now. */
  readonly recorded: (episode: string) => Promise<RecordedEpisode>;
  /** Of an attempt that replays, how far it got. */
  readonly replayed: (episode: string, place: Place) => Promise<ReplayResult>;
  readonly now: () => Date;
  /** For rewards that other servers or the tables give. */
  readonly scoring: Pick<Scoring, 'db' | 'post'>;
};

/** How the team ended: what it wrote, or why there is nothing. */
export type TeamEnd = {
  readonly ended: 'timeout' | 'stopped' | null;
  readonly failure: AttemptError | null;
  readonly output: string;
  /** How an end without a failure is called. */
  readonly words: string;
  /** What a reward command gets. */
  readonly env: Readonly<Record<string, string>>;
  /** Replaces the secrets of the team in a text. */
  readonly hide: (text: string) => string;
};

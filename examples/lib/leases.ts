/** Attempts of a rollout over HTTP: leased, given signs of life, and finished, several in one request. */
import { setTimeout as sleep } from 'node:timers/promises';

/** One attempt at a task, as far as a team needs it; `Task` is a line of the file of tasks. */
export type Attempt<Task> = {
  readonly attempt_id: string;
  readonly token: number;
  readonly episode_id: string;
  /** The rollout, and the group of the episodes of one task. */
  readonly rollout_id: string;
  readonly group_id: string;
  readonly task: Task;
  readonly seed: number;
  /** The version of the team, where the rollout names one: agents, edges, and what else it holds. */
  readonly team?: { readonly team_id: string; readonly definition: Readonly<Record<string, unknown>> };
  /** Settings of the rollout. */
  readonly params?: Readonly<Record<string, unknown>>;
};

export type Report = Pick<Attempt<unknown>, 'attempt_id' | 'token'> &
  (
    | {
        readonly outcome: 'done';
        readonly reward: number;
        readonly answer: string | null;
        readonly episode_outcome: 'success' | 'failure';
      }
    | { readonly outcome: 'failed'; readonly reason: string }
  );

export type Leases<Task> = {
  /** At most `count` attempts; none where none came within 20 s. */
  readonly lease: (count: number) => Promise<readonly Attempt<Task>[]>;
  readonly finish: (reports: readonly Report[]) => Promise<void>;
};

/** Seconds that the server waits for the first attempt. */
const WAIT_S = 20;
/** Longest pause between two tries while the server is away. */
const PAUSE_MS = 2000;

/** Rollouts of a runner at `url`. A request to a server that is away is sent again until `signal` fires: no report is lost by a restart. */
export function openLeases<Task>(
  url: string,
  { runner, headers, signal }: { runner: string; headers: Readonly<Record<string, string>>; signal: AbortSignal },
): Leases<Task> {
  const post = async (path: string, body: object): Promise<Record<string, unknown>> => {
    for (let pause = 50; ; pause = Math.min(PAUSE_MS, 2 * pause)) {
      const response = await fetch(new URL(`v1/rollouts/${path}`, url.endsWith('/') ? url : `${url}/`), {
        method: 'POST',
        headers: { ...headers, 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal,
      }).catch((error: unknown) => {
        signal.throwIfAborted();
        return error as Error;
      });
      if (response instanceof Response && response.ok) return (await response.json()) as Record<string, unknown>;
      if (response instanceof Response && response.status < 500)
        throw new Error(`The rollout refused ${path}: ${response.status} ${(await response.text()).slice(0, 300)}`);
      await sleep(pause, undefined, { signal });
    }
  };
  return {
    lease: async (count) =>
      (await post('lease', { runner, count, wait_s: WAIT_S })).attempts as readonly Attempt<Task>[],
    finish: async (attempts) => {
      if (attempts.length > 0) await post('finish', { attempts });
    },
  };
}

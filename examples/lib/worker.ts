/** A team as a program of its own: it leases attempts of a runner, plays them all at once, and reports them once they are recorded. */
import { createHash } from 'node:crypto';
import { parseArgs } from 'node:util';
import { createRecorder, type Recorder, RecorderError } from '../../ingest/recorder/recorder.ts';
import { type Gateway, openGateway } from './gateway.ts';
import { type Attempt, openLeases, type Report } from './leases.ts';

/** What an attempt came to. */
export type Played = {
  readonly reward: number;
  readonly answer: string | null;
  readonly solved: boolean;
};

/** `models` are the values of the team's own options, by name: `policy:NAME`, or a model of another server. */
export type Tools = {
  readonly gateway: Gateway;
  readonly recorder: Recorder;
  readonly models: Readonly<Record<string, string>>;
};

export type Play<Task> = (attempt: Attempt<Task>, tools: Tools) => Promise<Played>;

export type Team<Task> = {
  readonly name: string;
  /** The source, in every event of the team. */
  readonly source: string;
  /** The runner whose attempts it leases, unless --runner names another. */
  readonly runner: string;
  readonly agents: readonly {
    readonly name: string;
    readonly role: string;
    readonly policy?: string;
    readonly prompt: string;
  }[];
  /** Its options beside --url, --runner and --key, with the model each stands for if it is left out. */
  readonly models: Readonly<Record<string, string>>;
  readonly play: Play<Task>;
};

/** Episodes at a time. */
const AT_ONCE = 128;

/**
 * Plays attempts; resolves when all their events are durable. An attempt whose calls failed is reported with the reason. An event that is
 * refused, such as a tool call for which a model gave no name, is named on standard error: the others are recorded, and the team plays on.
 */
export async function playAll<Task>(
  attempts: readonly Attempt<Task>[],
  tools: Tools,
  play: Play<Task>,
): Promise<readonly Report[]> {
  const reports = await Promise.all(
    attempts.map(async (attempt): Promise<Report> => {
      const { attempt_id, token } = attempt;
      try {
        const { reward, answer, solved } = await play(attempt, tools);
        return {
          attempt_id,
          token,
          outcome: 'done',
          reward,
          answer,
          episode_outcome: solved ? 'success' : 'failure',
        };
      } catch (error) {
        return { attempt_id, token, outcome: 'failed', reason: (error as Error).message };
      }
    }),
  );
  await tools.recorder.flush().catch((error: unknown) => {
    if (!(error instanceof RecorderError) || error.rejected.length === 0) throw error;
    process.stderr.write(`${error.message}\n`);
  });
  return reports;
}

/** How long a team that is stopped tries to send what it recorded, in milliseconds; then the recorder reports what was not sent. */
const LEAVE_MS = 3000;

/** Runs the team with the options of the command line until SIGINT or SIGTERM. Ends the process with 2 where --url is missing. */
export async function runTeam<Task>({ name, source, runner, agents, models, play }: Team<Task>): Promise<void> {
  const { values } = parseArgs({
    options: {
      url: { type: 'string' },
      runner: { type: 'string', default: runner },
      key: { type: 'string' },
      ...Object.fromEntries(Object.entries(models).map(([of, model]) => [of, { type: 'string', default: model }])),
    },
  }) as { readonly values: Readonly<Record<string, string | undefined>> };
  const { url, key } = values;
  if (url === undefined) {
    process.stderr.write('Missing the address of Troupe: --url http://127.0.0.1:7717\n');
    process.exit(2);
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort());
  stop.signal.addEventListener('abort', () => setTimeout(() => process.exit(1), LEAVE_MS).unref());
  // A program that started it, and is gone, leaves no team that asks for work for ever.
  process.once('disconnect', () => stop.abort());
  process.channel?.unref();
  const headers: Record<string, string> = key === undefined ? {} : { authorization: `Bearer ${key}` };
  const leases = openLeases<Task>(url, { runner: values.runner!, headers, signal: stop.signal });
  const gateway = openGateway(url, { headers });
  const recorder = createRecorder({ baseUrl: url, source, headers });
  const chosen = Object.fromEntries(Object.keys(models).map((of) => [of, values[of]!]));
  introduce(recorder, name, agents);
  try {
    while (!stop.signal.aborted) {
      const attempts = await leases.lease(AT_ONCE);
      await leases.finish(await playAll(attempts, { gateway, recorder, models: chosen }, play));
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
  } finally {
    gateway.close();
  }
}

/** Records what one step earned by itself, beside the reward that the attempt is reported with. */
export function earned(recorder: Recorder, episode_id: string, step_id: string, value: number): void {
  const target = { kind: 'step' as const, id: step_id, episode_id };
  recorder.feedback({ feedback_id: `${step_id}/reward`, target, kind: 'reward', name: 'reward', value, by: 'env' });
}

/** A team is a version of its own by the hash of its members. */
function introduce(recorder: Recorder, name: string, agents: Team<unknown>['agents']): void {
  const content_hash = createHash('sha256').update(JSON.stringify(agents)).digest('hex');
  const team_id = `${name.replaceAll(' ', '-')}@${content_hash.slice(0, 12)}`;
  recorder.event({
    name: 'team.defined',
    id: `team/${team_id}`,
    time: null,
    data: { team_id, name, agents: [...agents], edges: [], content_hash },
  });
}

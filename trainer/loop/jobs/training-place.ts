/**
 * A machine trains as many jobs at a time as its setting says, whichever process, project or home they are of. A place is a Unix socket.
 * On Linux its name is abstract: the kernel gives it to one process of the machine, and takes it back when that process ends, however it ends.
 * Elsewhere it is a file, which whoever finds nobody behind it takes over; two that find so in the same millisecond may both train.
 * Who has it answers by whom it is held. A container with a network of its own counts as a machine.
 */
import { rmSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isRecord, parseRecord } from '../../../ingest/events/json.ts';
import type { Db } from '../../../store/db/pool.ts';
import { anyOf, query, rowsOf, type SqlBool, sql } from '../../../store/db/query.ts';
import type { WorkerTurn } from '../../../store/queue/jobs/worker.ts';
import type { Engine } from '../../engines/engines.ts';

/** Kinds of jobs that train. */
const TRAINING_KINDS: readonly string[] = ['sft', 'dpo', 'rl', 'value', 'program'];

export type Holder = {
  readonly pid: number;
  readonly project: string;
  readonly home: string;
  readonly job_id: string;
};

export type Places = {
  readonly count: number;
  /** What the names of the sockets begin with. */
  readonly named?: string;
  /** Where the sockets lie; null for abstract names. */
  readonly folder?: string | null;
};

/** A training step may hold up the event loop of the one that is asked. */
const ANSWER_MS = 3000;
/** Characters. */
const LONGEST_ANSWER = 65_536;

const FOLDER = process.platform === 'linux' ? null : tmpdir();

const names = ({ count, named = 'troupe-training', folder = FOLDER }: Places): string[] =>
  // Processes that may have several places begin with different ones, so that they rarely take the only one of another setting.
  Array.from({ length: count }, (_, at) => {
    const place = 1 + ((at + process.pid) % count);
    return folder === null ? `\0${named}/${place}` : join(folder, `${named}-${place}.sock`);
  });

/** Takes a free place until the function returned is called or the process ends; null where there is none. */
export async function takePlace(places: Places, holder: Holder): Promise<(() => Promise<void>) | null> {
  const answer = JSON.stringify(holder);
  for (const name of names(places)) {
    const free = (await listen(name, answer)) ?? (await takeOver(name, answer));
    if (free !== null) return free;
  }
  return null;
}

const listen = (name: string, answer: string): Promise<(() => Promise<void>) | null> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.on('error', () => {}).end(answer));
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(null) : reject(error),
    );
    server.listen(name, () => {
      server.unref();
      resolve(() => new Promise((closed) => server.close(() => closed())));
    });
  });

/** Takes a place whose process died and left its file. */
async function takeOver(name: string, answer: string): Promise<(() => Promise<void>) | null> {
  if (name.startsWith('\0') || (await ask(name)) !== 'free') return null;
  rmSync(name, { force: true });
  return listen(name, answer);
}

/** Who has the places of this machine: one entry for each that is taken, null where its process does not answer. */
export async function placeHolders(places: Places): Promise<(Holder | null)[]> {
  const asked = await Promise.all(names(places).map(ask));
  return asked.flatMap((one) => (one === 'free' ? [] : one));
}

const ask = (name: string): Promise<Holder | null | 'free'> =>
  new Promise((resolve) => {
    let text = '';
    const socket = connect(name)
      .setTimeout(ANSWER_MS, () => socket.destroy())
      .setEncoding('utf8')
      .on('data', (part: string) => {
        text += part;
        if (text.length > LONGEST_ANSWER) socket.destroy();
      })
      .on('error', ({ code }: NodeJS.ErrnoException) =>
        resolve(code === 'ECONNREFUSED' || code === 'ENOENT' ? 'free' : null),
      )
      .on('close', () => resolve(holderIn(text)));
  });

/** Null for what no process of ours answers: any program of the machine may have taken the name. */
function holderIn(text: string): Holder | null {
  const answer = parseRecord(text);
  return 'value' in answer && isHolder(answer.value) ? answer.value : null;
}

const isHolder = (value: unknown): value is Holder =>
  isRecord(value) &&
  typeof value.pid === 'number' &&
  ['project', 'home', 'job_id'].every((name) => typeof value[name] === 'string');

/** Whom a job that waits for a place waits for, as a sentence ends. */
export const holdersText = (holders: readonly (Holder | null)[]): string =>
  holders
    .map((one) =>
      one === null
        ? 'a process that does not answer'
        : `job ${one.job_id} of project ${one.project} in ${one.home} (process ${one.pid})`,
    )
    .join(', ');

/** Whom a job of this project waits for because the machine trains already; null where it does not wait for that. */
export async function waitsForTraining({
  project,
  home,
  settings: { trainings = 0 },
}: {
  readonly project: string;
  readonly home: { readonly root: string };
  readonly settings: { readonly trainings?: number };
}) {
  const ahead = trainings === 0 ? [] : await placeHolders({ count: trainings });
  const isAhead = (id: string | null) =>
    ahead.some((one) => one?.job_id === id && one?.project === project && one?.home === home.root);
  return (job: { readonly job_id: string | null; readonly kind: string | null; readonly state: string | null }) =>
    trainings > 0 &&
    ahead.length === trainings &&
    job.state === 'requested' &&
    TRAINING_KINDS.includes(job.kind ?? '') &&
    !isAhead(job.job_id)
      ? holdersText(ahead)
      : null;
}

/** The first of these jobs whose program works elsewhere: it needs no place here. */
export const firstElsewhere =
  (db: Pick<Db, 'query'>, engines: readonly Engine[]) =>
  async (jobIds: readonly string[]): Promise<string | null> => {
    const names = engines.filter(({ elsewhere }) => elsewhere).map(({ name }) => name);
    if (names.length === 0 || jobIds.length === 0) return null;
    const found = await rowsOf(
      db,
      query
        .selectFrom('troupe.job_queue')
        .select('job_id')
        .where('kind', '=', 'program')
        .where('job_id', '=', anyOf(jobIds))
        .where(sql<SqlBool>`spec ->> 'engine' = any(${names}::text[])`),
    );
    const elsewhere = new Set(found.map(({ job_id }) => job_id));
    return jobIds.find((id) => elsewhere.has(id)) ?? null;
  };

/** The turn of a worker whose trainings take a place. `say` is called once for each job that waits, with the jobs before it. */
export function trainingTurn(
  places: Places,
  {
    project,
    home,
    say,
    free,
  }: Pick<Holder, 'project' | 'home'> & {
    readonly say: (text: string) => void;
    readonly free?: WorkerTurn['free'];
  },
): WorkerTurn {
  let reported: string | null = null;
  return {
    ...(free === undefined ? {} : { free }),
    kinds: TRAINING_KINDS,
    take: async (jobId) => {
      const free = await takePlace(places, { pid: process.pid, project, home, job_id: jobId });
      if (free === null && reported !== jobId) {
        const ahead = await placeHolders(places);
        // Another worker of the project has just begun this very job.
        if (ahead.some((one) => one?.job_id === jobId && one.project === project && one.home === home)) return null;
        reported = jobId;
        say(`Job ${jobId} waits for ${holdersText(ahead)}.`);
      }
      return free;
    },
  };
}

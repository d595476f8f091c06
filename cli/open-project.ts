/**
 * Troupe as a library: a project with the commands as typed methods. Settings are those of the command line: options over `TROUPE_*` over
 * `troupe.yaml` over defaults.
 */
import { execFile } from 'node:child_process';
import { userInfo } from 'node:os';
import { fileURLToPath } from 'node:url';
import { allOperations, type Methods, methodsBy } from '../api/operations/catalogue.ts';
import { perform } from '../api/operations/perform.ts';
import { type ErrorCode, TroupeError } from '../errors.ts';
import { type MethodRequest, unjudged } from '../store/evaluate/judging/judge.ts';
import { type Context, operationContext, withContext } from './context.ts';
import { roleSettings } from './processes/children.ts';

const BIN = fileURLToPath(
  new URL(import.meta.url.endsWith('.ts') ? '../bin/troupe.js' : '../../bin/troupe.js', import.meta.url),
);

export type ProjectOptions = {
  /** Folder of the embedded database, datasets and checkpoints. */
  readonly home?: string;
  readonly project?: string;
  readonly databaseUrl?: string;
  /** True: create the project where it does not exist; otherwise only the default project is created. */
  readonly create?: boolean;
};

/** Options of `troupe train METHOD`, named as there without dashes: `{ checkpointEvery: 10 }` is `--checkpoint-every 10`. */
export type TrainOptions = {
  /** Directory of the model or checkpoint to start from. */
  readonly model: string;
  /** A frozen dataset (id, name or folder), or a file of JSON lines. */
  readonly data: string;
  /** Folder for the checkpoints. */
  readonly out: string;
  readonly [option: string]: string | number | boolean;
};

export type TrainResult = {
  readonly checkpoint_id: string;
  readonly directory: string;
  /** Training loss of each step. */
  readonly losses: readonly number[];
  readonly [field: string]: unknown;
};

export type Project = Methods & {
  readonly name: string;
  /** Ids of the closed episodes of complete groups that changed since these methods last judged them. */
  readonly unjudged: (methods: readonly MethodRequest[]) => Promise<string[]>;
  /** Trains in a process of its own, since a training step blocks the event loop. */
  readonly train: (method: 'sft' | 'dpo' | 'rl', options: TrainOptions) => Promise<TrainResult>;
  /** Closes the connections; the embedded server stops when nobody uses it. */
  readonly close: () => Promise<void>;
};

/**
 * Opens a project, starting the embedded database where none is configured.
 * @throws TroupeError `not_found` for a project that does not exist; what opening a database throws
 */
export function openProject(options: ProjectOptions = {}): Promise<Project> {
  const { create = false, ...flags } = options;
  return new Promise((resolve, reject) => {
    const closed = withContext(
      flags,
      (context) =>
        new Promise<void>((end) => {
          const close = async () => {
            end();
            return closed;
          };
          operationMethods(context).then((methods) => resolve({ ...methods, ...methodsOf(context), close }), reject);
        }),
      { create },
    );
    closed.catch(reject);
  });
}

/** Every operation; one that reads waits for the tables to hold what the log does. */
async function operationMethods(context: Context): Promise<Methods> {
  const operations = await allOperations();
  const asked = operationContext(context, userInfo().username);
  return methodsBy(
    operations,
    async (name, input, { signal = asked.signal, onProgress: progress = asked.progress }) => {
      const operation = operations.find((one) => one.name === name)!;
      if (!operation.changes && operation.alone !== true) await context.catchUp({ signal });
      return perform(operation, { ...asked, signal, progress }, input);
    },
  );
}

function methodsOf(context: Context): Omit<Project, 'close' | keyof Methods> {
  const { db, now, config, catchUp, patiently } = context;
  return {
    name: context.database.project,
    unjudged: async (methods) => {
      await catchUp();
      return patiently(() => unjudged(db, methods, { now: now(), closeAfter: config.close_after }));
    },
    train: (method, options) => trained(context, method, options),
  };
}

function trained({ config }: Context, method: string, options: TrainOptions): Promise<TrainResult> {
  const { args, env } = roleSettings(config);
  const given = Object.entries(options).flatMap(([name, value]) => {
    const flag = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    if (typeof value === 'boolean') return value ? [`--${flag}`] : [`--no-${flag}`];
    return [`--${flag}`, String(value)];
  });
  const line = [BIN, ...args, 'train', method, '--json', ...given];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, line, { env: { ...process.env, ...env }, maxBuffer: 2 ** 30 }, (failure, stdout) => {
      const document = documentIn(stdout);
      if (!failure && document) return resolve(document as TrainResult);
      const error = document?.error as { code: ErrorCode; message: string } | undefined;
      reject(error ? new TroupeError(error.code, error.message) : failure);
    });
  });
}

function documentIn(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

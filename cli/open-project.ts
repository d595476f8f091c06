/**
 * Troupe as a library: a project with the commands as typed methods. Settings are those of the command line: options over `TROUPE_*` over
 * `troupe.yaml` over defaults.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { userInfo } from 'node:os';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { allOperations, type Methods, methodsBy } from '../api/operations/catalogue.ts';
import type { CallOptions, Operation } from '../api/operations/operation.ts';
import { inputOf, perform } from '../api/operations/perform.ts';
import { type ErrorCode, TroupeError } from '../errors.ts';
import { type Context, operationContext, withContext } from './context.ts';
import { wordsOf } from './derive.ts';
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

export type Project = Methods & {
  readonly name: string;
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
          operationMethods(context).then(
            (methods) => resolve({ ...methods, name: context.database.project, close }),
            reject,
          );
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
  return methodsBy(operations, async (name, input, options) => {
    const operation = operations.find((one) => one.name === name)!;
    if (operation.blocks) return byCommand(context, operation, input, options);
    const { signal = asked.signal, onProgress: progress = asked.progress } = options;
    if (!operation.changes && operation.alone !== true) await context.catchUp({ signal });
    return perform(operation, { ...asked, signal, progress }, input);
  });
}

/** What would block the event loop, by the command, which ends with this process. */
function byCommand(
  { config }: Context,
  operation: Operation,
  given: unknown,
  { signal, onProgress }: CallOptions,
): Promise<unknown> {
  const { args, env } = roleSettings(config);
  const line = [...args, ...wordsOf(operation, inputOf(operation, given)), '--json'];
  return new Promise((resolve, reject) => {
    const child = fork(BIN, line, { silent: true, env: { ...process.env, ...env } });
    child.on('message', (step: Parameters<NonNullable<typeof onProgress>>) => onProgress?.(...step));
    const stop = () => child.kill('SIGINT');
    signal?.addEventListener('abort', stop);
    Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'exit')]).then(([out, said]) => {
      signal?.removeEventListener('abort', stop);
      const document = documentIn(out);
      if (document === null)
        return reject(new TroupeError('internal', `troupe ${operation.name} ended: ${said.trim()}`));
      if (document.error === undefined) return resolve(document);
      const { code, message, ...detail } = document.error as { code: ErrorCode; message: string };
      reject(new TroupeError(code, message, detail));
    }, reject);
  });
}

function documentIn(text: string): Record<string, unknown> | null {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

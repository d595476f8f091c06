/** How every command is written: flags that all share, errors as one clear line, exit codes from the table in errors.ts. */
import { type Command, CommanderError } from 'commander';
import { EXIT, TroupeError } from '../errors.ts';
import { type Context, withContext } from './context.ts';
import { printJson, say } from './output.ts';

export type Flags = Readonly<Record<string, unknown>> & { readonly json?: boolean; readonly quiet?: boolean };

/** A command that works on a project. The work returns the exit code, 0 when it returns nothing. */
export function projectCommand(
  command: Command,
  work: (context: Context, args: readonly string[], flags: Flags) => Promise<number | undefined>,
): Command {
  return plainCommand(command, (args, flags) => withContext(flags, (context) => work(context, args, flags)));
}

/** A command that needs no project. */
export function plainCommand(
  command: Command,
  work: (args: readonly string[], flags: Flags) => Promise<number | undefined>,
): Command {
  return command.action(async (...given: unknown[]) => {
    const self = given.at(-1) as Command;
    const flags = self.optsWithGlobals() as Flags;
    process.exitCode = await guarded(flags, () =>
      work(self.processedArgs.flat().filter((a) => a !== undefined) as string[], flags),
    );
  });
}

async function guarded(flags: Flags, work: () => Promise<number | undefined>): Promise<number> {
  try {
    return (await work()) ?? EXIT.done;
  } catch (error) {
    if (!(error instanceof TroupeError)) throw error;
    if (flags.json) printJson({ error: { code: error.code, message: error.message, ...plainDetail(error) } });
    say(
      `troupe: ${error.message}${error.detail.hint && !error.message.includes(error.detail.hint) ? `\n  ${error.detail.hint}` : ''}`,
    );
    return error.exit;
  }
}

function plainDetail({ detail: { cause: _, ...rest } }: TroupeError): object {
  return rest;
}

/** Commander's own usage errors end with our exit code for usage. */
export function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
  throw error;
}

/** A signal that ends with the first Ctrl-C or SIGTERM; the second one ends the process at once. */
export function untilInterrupted(): AbortSignal {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(EXIT.interrupted);
    controller.abort();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  return controller.signal;
}

export const wholeNumber = (name: string) => (text: string) => {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new TroupeError('usage', `--${name} should be a whole number from 0, but it is ${JSON.stringify(text)}.`);
};

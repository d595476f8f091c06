/** How every command is written: flags that all share, errors as one clear line, exit codes from the table in errors.ts. */
import { userInfo } from 'node:os';
import { type Command, CommanderError, InvalidArgumentError } from 'commander';
import { loadConfig } from '../config.ts';
import { EXIT, TroupeError } from '../errors.ts';
import { environmentError } from '../store/db/faults.ts';
import type { Context } from './context.ts';
import type { OpenDatabase } from './database.ts';
import { answer, printJson, say } from './output.ts';
import { loadOwn } from './own-modules.ts';
import { refuseUnknownVariables } from './variables.ts';

export type Flags = Readonly<Record<string, unknown>> & { readonly json?: boolean; readonly quiet?: boolean };

/**
 * A command that works on a project. The work returns the exit code, 0 when it returns nothing. What `check` refuses is refused before
 * the project is opened, so that a mistyped path starts no database. It knows the user's own methods and formats.
 */
export function projectCommand(
  command: Command,
  work: (context: Context, args: readonly string[], flags: Flags) => Promise<number | undefined>,
  check: (args: readonly string[], flags: Flags) => Promise<unknown> = async () => {},
): Command {
  return plainCommand(command, async (args, flags) => {
    await loadOwn(loadConfig(flags, process.env));
    await check(args, flags);
    const { enduring, withContext } = await import('./context.ts');
    return withContext(flags, (context) => work(enduring(context), args, flags));
  });
}

/**
 * A command that is a process: it runs until it is stopped, and waits for the database in its own loops. What `check` refuses is refused
 * before anything starts.
 */
export function processCommand(
  command: Command,
  work: (context: Context, args: readonly string[], flags: Flags) => Promise<number | undefined>,
  check: (flags: Flags) => Promise<unknown> = async () => {},
): Command {
  return plainCommand(command, async (args, flags) => {
    await loadOwn(loadConfig(flags, process.env));
    await check(flags);
    const { withContext } = await import('./context.ts');
    return withContext(flags, (context) => work(context, args, flags));
  });
}

/** A command that only reads the database of a project, or writes what does not pass the log. */
export function databaseCommand(
  command: Command,
  work: (opened: OpenDatabase, args: readonly string[], flags: Flags) => Promise<number | undefined>,
): Command {
  return plainCommand(command, async (args, flags) => {
    const { patientReads, withDatabase } = await import('./database.ts');
    return withDatabase(flags, (opened) => work({ ...opened, db: patientReads(opened) }, args, flags));
  });
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
    refuseUnknownVariables(process.env);
    return (await work()) ?? EXIT.done;
  } catch (error) {
    const known = error instanceof TroupeError ? error : environmentError(error);
    const message = known?.message ?? (error instanceof Error ? error.message : String(error));
    answer(flags, { error: { code: known?.code ?? 'internal', message, ...(known && plainDetail(known)) } }, '');
    const hint = known?.detail.hint;
    say(`troupe: ${message}${hint && !message.includes(hint) ? `\n  ${hint}` : ''}`, 'error');
    // Not one of ours, so a fault of Troupe: whoever looks for it needs the place.
    if (!known && error instanceof Error) say(error.stack?.split('\n').slice(1).join('\n') ?? '', 'error');
    return known?.exit ?? EXIT.failed;
  }
}

function plainDetail({ detail: { cause: _, ...rest } }: TroupeError): object {
  return rest;
}

/** Commander's own usage errors end with our exit code for usage. */
export function exitCodeOf(error: unknown, { json = false } = {}): number {
  if (!(error instanceof CommanderError)) throw error;
  if (error.exitCode === 0) return EXIT.done;
  if (json) printJson({ error: { code: 'usage', message: error.message.replace(/^error: /, '') } });
  return EXIT.usage;
}

/**
 * A signal that ends with the first Ctrl-C or SIGTERM, or with the process of ours that started this one; the second signal ends
 * the process at once.
 */
export function untilInterrupted(): AbortSignal {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(EXIT.interrupted);
    controller.abort();
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  if (process.channel) {
    process.once('disconnect', () => controller.abort());
    process.channel.unref();
  } else if (process.send) {
    // The parent was gone before the message could reach it.
    controller.abort();
  }
  return controller.signal;
}

export const wholeNumber = (name: string) => (text: string) => {
  if (/^\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw new InvalidArgumentError(`--${name} should be a whole number from 0.`);
};

export const positive = (name: string) => (text: string) => {
  const value = wholeNumber(name)(text);
  if (value >= 1) return value;
  throw new InvalidArgumentError(`--${name} should be a whole number from 1.`);
};

export const number = (name: string) => (text: string) => {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  throw new InvalidArgumentError(`--${name} should be a number.`);
};

/** Who does it: the option `--by`, else the user of this machine. */
export const who = ({ by }: Flags): string => (by === undefined ? userInfo().username : String(by));

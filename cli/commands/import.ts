/** `troupe import`: files of any known format become events. */
import type { Command } from 'commander';
import { countText, EXIT, TroupeError } from '../../errors.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { factsOf } from '../../ingest/files/import-files.ts';
import { FORMATS, formatNamed } from '../../ingest/formats/catalogue.ts';
import type { Patiently } from '../../store/db/patience.ts';
import type { Db } from '../../store/db/pool.ts';
import type { RefusalHandler } from '../../store/projecting/closing.ts';
import { projectBatch } from '../../store/projecting/projector.ts';
import { projectCommand, untilInterrupted } from '../command.ts';
import { print, printJson, progressBar, say } from '../output.ts';
import { loadFormats } from '../own-modules.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('import')
      .argument('<path...>', 'files or folders')
      .option(
        '--format <name>',
        `format of the input (default: detected), or the file of your own, such as ./my-format.ts: ${FORMATS.map((format) => format.name).join(', ')}`,
      )
      .option('--dry-run', 'print what would be imported and where each field goes, and change nothing')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe import results.json\n  troupe import logs/ --format openai-chat --dry-run\n  troupe import runs.jsonl --format ./my-format.ts',
      ),
    async ({ db, log, source, book, artifacts, originals, redactor, episodes, catchUp, patiently }, paths, flags) => {
      const quiet = flags.quiet === true || flags.json === true;
      const signal = untilInterrupted();
      const bar = progressBar('Importing', { quiet });
      // What lies in a topic alone is known only once it was read.
      if (source !== null && !flags.dryRun) await catchUp({ signal });
      const report = await importFiles(paths, {
        log,
        book,
        artifacts,
        originals,
        redactor,
        episodes,
        ...(flags.format ? { format: await formatIn(String(flags.format)) } : {}),
        ...(flags.dryRun ? { dryRun: true } : {}),
        onProgress: ({ bytesDone, bytesTotal, file }) => bar.update(bytesDone, bytesTotal, file ?? ''),
        signal,
      }).finally(bar.stop);
      if (!flags.dryRun) {
        if (source !== null) await catchUp({ signal });
        await projectNow(db, report.events.accepted, { quiet, signal, patiently });
        const { closeImported, staysOpen } = await import('../../store/projecting/closing.ts');
        const onRefused: RefusalHandler = (episode, refusal) => say(staysOpen(episode, refusal), 'warn');
        const closed = await patiently(() => closeImported(db, log, onRefused));
        if (source !== null) await catchUp({ signal });
        await projectNow(db, closed, { quiet: true, signal, patiently });
        const { analyzeGrown } = await import('../../store/projecting/grown-tables.ts');
        await patiently(() => analyzeGrown(db));
      }
      if (flags.json) printJson(report);
      else printImport(report);
      return report.events.rejected > 0 || report.errors.length > 0 ? EXIT.refused : EXIT.done;
    },
    async (paths, flags) => {
      if (flags.format) await formatIn(String(flags.format));
      for (const path of paths) await factsOf(path);
    },
  );
}

/** The name of a format, given by its name or by the file of a user's own. @throws TroupeError `usage` where there is no one such format */
async function formatIn(given: string): Promise<string> {
  if (!/[\\/]|\.m?[jt]s$/.test(given)) return formatNamed(given).name;
  const [only, ...others] = (await loadFormats(given)).map(({ name }) => name);
  if (others.length === 0) return only!;
  throw new TroupeError(
    'usage',
    `${given} has the formats ${[only, ...others].join(', ')}. Name the file in the setting formats, and one of them with --format.`,
    { field: 'format', expected: 'a file with one format', got: given },
  );
}

/** Projects the log into the tables, in batches, so that Ctrl-C takes effect; the next command that needs the rest projects it. */
async function projectNow(
  db: Db,
  expected: number,
  { quiet, signal, patiently }: { quiet: boolean; signal: AbortSignal; patiently: Patiently },
) {
  const bar = progressBar('Projecting', { quiet });
  try {
    for (let done = 0, applied = 1; applied > 0; done += applied) {
      if (signal.aborted) {
        throw new TroupeError(
          'interrupted',
          'The import was interrupted: everything is in the log, the tables are not all written. Import again to go on.',
        );
      }
      applied = await patiently(() => projectBatch(db));
      bar.update(done + applied, Math.max(done + applied, expected));
    }
  } finally {
    bar.stop();
  }
}

type Report = Awaited<ReturnType<typeof importFiles>>;

function printImport(report: Report): void {
  print(
    `Format ${report.format ?? 'unknown'}: ${countText(report.files, 'file')}, ${countText(report.episodes, 'episode')}, ${countText(report.tasks, 'task')}, ${countText(report.agents, 'agent')}, ${countText(report.calls, 'call')}, ${countText(report.steps, 'step')}, ${countText(report.tool_calls, 'tool call')}, ${report.feedback} feedback.`,
  );
  const { received, accepted, duplicates, rejected } = report.events;
  print(`Events: ${received} received = ${accepted} accepted + ${duplicates} known already + ${rejected} rejected.`);
  if (report.files === 0 && report.skipped_files.length === 0 && received === 0) say('There was no file to import.');
  for (const skipped of report.skipped_files) say(`skipped ${skipped.file}: ${skipped.reason}`);
  for (const { format, type, lines } of report.unread_lines ?? [])
    say(
      `not read: ${countText(lines, 'line')} of type ${type}, which ${format} does not know; kept in the record alone`,
    );
  for (const error of report.errors.slice(0, 20)) {
    say(
      `refused ${error.file}${error.line ? `:${error.line}` : ''}${error.field ? ` ${error.field}` : ''}: ${error.code}, expected ${error.expected}, got ${error.got}`,
    );
  }
  if (report.errors.length > 20) say(`… and ${report.errors.length - 20} more; \`troupe deadletters\` lists them.`);
  const mapping = (report as { mapping?: unknown }).mapping;
  if (mapping) print(JSON.stringify(mapping, null, 2));
}

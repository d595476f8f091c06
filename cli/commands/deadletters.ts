/** `troupe deadletters`: rejected records: listing, showing, replaying. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Command } from 'commander';
import { EXIT, TroupeError } from '../../errors.ts';
import { importFiles } from '../../ingest/files/import.ts';
import { query, rowsOf } from '../../store/db/query.ts';
import { letterOf, replay } from '../../store/log/dead-letters.ts';
import { newest, projectCommand, wholeNumber } from '../command.ts';
import type { Context } from '../context.ts';
import { print, printJson, say, table } from '../output.ts';

export function addTo(program: Command): void {
  const letters = program
    .command('deadletters')
    .addHelpText('after', '\nExamples:\n  troupe deadletters --limit 5\n  troupe deadletters show 17');
  listCommand(letters);
  showCommand(letters);
  replayCommand(letters);
}

function listCommand(letters: Command): void {
  projectCommand(
    letters
      .command('list', { isDefault: true })
      .description('list dead letters, newest first')
      .option('--limit <n>', 'maximum number of rows', wholeNumber('limit'), 50)
      .option('--code <code>', 'only dead letters with this error code')
      .addHelpText('after', '\nExample:\n  troupe deadletters list --limit 5 --json'),
    async ({ db }, _, flags) => {
      const read = await rowsOf(
        db,
        query
          .selectFrom('traj.dead_letters')
          .select(['dead_letter_id', 'door', 'place', 'code', 'field', 'expected', 'got', 'bytes', 'attempts'])
          .select(['first_at', 'last_at', 'replayed_at'])
          .$if(flags.code !== undefined, (all) => all.where('code', '=', String(flags.code)))
          .orderBy('dead_letter_id', 'desc')
          .limit((flags.limit as number) + 1),
      );
      const { rows, truncated } = newest(read, flags, 'dead letter');
      if (flags.json) printJson({ dead_letters: rows, truncated });
      else if (rows.length === 0) print('No dead letters: nothing was rejected.');
      else
        print(
          table(
            ['id', 'door', 'place', 'code', 'field', 'expected', 'got'],
            rows.map((row) => [row.dead_letter_id, row.door, row.place, row.code, row.field, row.expected, row.got]),
          ),
        );
    },
  );
}

function showCommand(letters: Command): void {
  projectCommand(
    letters
      .command('show')
      .description('show one dead letter with its original bytes')
      .argument('<id>')
      .addHelpText('after', '\nExamples:\n  troupe deadletters show 12\n  troupe deadletters show 12 --json'),
    async ({ db }, [id], flags) => {
      const { raw, ...letter } = await letterOf(db, numberOf(id!));
      const text = raw.toString('utf8');
      const exact = Buffer.from(text).equals(raw);
      if (flags.json)
        printJson({
          ...letter,
          bytes: raw.length,
          raw: exact ? text : null,
          raw_base64: exact ? null : raw.toString('base64'),
        });
      else {
        print(table(['field', 'value'], Object.entries({ ...letter, bytes: raw.length })));
        print(text);
      }
    },
  );
}

function replayCommand(letters: Command): void {
  projectCommand(
    letters
      .command('replay')
      .description('ingest rejected records again, once the cause of the rejection is fixed')
      .argument('[id...]')
      .option('--all', 'every dead letter that was not replayed yet')
      .option('--code <code>', 'only dead letters with this error code')
      .addHelpText(
        'after',
        '\nA record that is accepted is marked replayed; if any is rejected again, the command exits with 3.\n\nExamples:\n  troupe deadletters replay 12 13\n  troupe deadletters replay --all --code unknown_event',
      ),
    async (context, ids, flags) => {
      if (ids.length === 0 && !flags.all && !flags.code)
        throw new TroupeError('usage', 'Missing ids, --code CODE or --all.');
      const { db, log, now, catchUp } = context;
      const done = await replay(db, {
        log,
        now,
        ids: ids.length === 0 ? null : ids.map(numberOf),
        code: (flags.code as string | undefined) ?? null,
        importRecord: (raw) => importAgain(context, raw),
      });
      await catchUp();
      if (flags.json) printJson(done);
      else print(`${done.tried} tried: ${done.replayed.length} replayed, ${done.refused.length} still refused.`);
      for (const { dead_letter_id, code, why } of done.refused) say(`${dead_letter_id}: ${code}, ${why}`);
      return done.refused.length > 0 ? EXIT.refused : EXIT.done;
    },
  );
}

function numberOf(id: string): number {
  if (/^\d+$/.test(id)) return Number(id);
  throw new TroupeError('usage', `A dead letter is named by its number, not by ${JSON.stringify(id)}.`);
}

/** A record of a file, as a file of its own. Its letter is counted once more only where it is refused again. */
async function importAgain(
  { log, artifacts, originals, redactor, episodes }: Context,
  raw: Uint8Array,
): Promise<string | null> {
  const folder = await mkdtemp(join(tmpdir(), 'troupe-replay-'));
  try {
    const file = join(folder, 'record.json');
    await writeFile(file, raw);
    const book = { report: async () => {} };
    const { events, errors } = await importFiles([file], { log, book, artifacts, originals, redactor, episodes });
    const [first] = errors;
    if (first) return `${first.field || 'the record'} should be ${first.expected}`;
    return events.received > 0 ? null : 'nothing was read from it';
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

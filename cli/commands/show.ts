/** `troupe show`: one episode as a conversation, page by page. */
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import type { Command } from 'commander';
import type { Config } from '../../config.ts';
import { TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { firstOf, query } from '../../store/db/query.ts';
import type { EpisodePage } from '../../store/explore/episodes/read-page.ts';
import { homeAt } from '../../store/server/home.ts';
import { databaseCommand } from '../command.ts';
import { entryText, heading, judgementTables } from '../conversation.ts';
import { print, say } from '../output.ts';
import { writePagesAsOne } from '../pages-as-one.ts';

export function addTo(program: Command): void {
  databaseCommand(
    program
      .command('show')
      .argument('<episode>')
      .option('--full', 'print texts in full')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe show run-1\n  troupe show run-1 --full | less\n  troupe show run-1 --json',
      ),
    async ({ db, config }, [id], flags) => {
      const { readEpisodePage } = await import('../../store/explore/episodes/read-page.ts');
      const first = await readEpisodePage(db, id!);
      if (!first) throw await noEpisode(db, id!);
      const pages = async function* (): AsyncGenerator<EpisodePage> {
        yield first;
        for (let next = first.next; next !== null; ) {
          const page = await readEpisodePage(db, id!, { after: next });
          if (!page) return;
          yield page;
          next = page.next;
        }
      };
      const { json = false } = flags;
      const truncated = await (json
        ? writePagesAsOne(pages(), folderToWaitIn(config), (text) => process.stdout.write(text))
        : printPages(first, pages(), flags.full === true));
      if (truncated.length > 0)
        say(`Only the beginning of ${truncated.join(', ')} is here; troupe sql reads the rest.`);
    },
  );
}

/** Beside a server of its own there need be no home. */
function folderToWaitIn({ home }: Config): string {
  const { run } = homeAt(home);
  return existsSync(run) ? run : tmpdir();
}

/** As sentences, one page held at a time. Answers with the lists that were cut. */
async function printPages(
  first: EpisodePage,
  pages: AsyncIterable<EpisodePage>,
  full: boolean,
): Promise<readonly string[]> {
  const { joinPages } = await import('../../store/explore/episodes/read-page.ts');
  const held: EpisodePage[] = [];
  print(heading(first));
  for await (const page of pages) {
    for (const entry of page.conversation) print(`\n${entryText(entry, { full })}`);
    // What was printed is not held: texts of a long episode are most of its memory.
    held.push({ ...page, conversation: [], steps: [], tool_calls: [] });
  }
  const whole = joinPages(held);
  for (const one of judgementTables(whole)) print(`\n${one}`);
  return whole.truncated;
}

async function noEpisode(db: Db, id: string): Promise<TroupeError> {
  const pruned = await firstOf(db, query.selectFrom('traj.pruned').select('uri').where('episode_id', '=', id));
  if (!pruned)
    return new TroupeError('not_found', `There is no episode ${id}.`, { hint: '`troupe episodes` lists them.' });
  return new TroupeError('not_found', `Episode ${id} was pruned into ${pruned.uri}.`, {
    hint: `\`troupe prune --restore ${pruned.uri}\` brings it back; \`troupe rebuild --archived\` shows it while it stays there.`,
  });
}

/** Judging: run methods over episodes. */
import type { Command } from 'commander';
import { countText, got, TroupeError } from '../../errors.ts';
import type { Db } from '../../store/db/pool.ts';
import { query, rowsOf } from '../../store/db/query.ts';
import { type ComparedEpisodes, comparedBy } from '../../store/evaluate/judging/compared.ts';
import {
  compareEverything,
  judge,
  type MethodRequest,
  resolveMethods,
  unjudged,
} from '../../store/evaluate/judging/judge.ts';
import { ALL_SHARES } from '../../store/evaluate/judging/lock.ts';
import { closedEpisodes } from '../../store/evaluate/judging/unjudged.ts';
import { type UnreadReward, unreadRewards, unreadText } from '../../store/evaluate/judging/unread-rewards.ts';
import { type Flags, projectCommand } from '../command.ts';
import { episodeFilter } from '../episode-filter.ts';
import { parseMethods } from '../methods/methods-asked.ts';
import { print, printJson, progressBar } from '../output.ts';

/** Judged when neither the command nor the configuration names any. */
const DEFAULT_METHODS: readonly MethodRequest[] = [
  { method: 'correctness_filter' },
  { method: 'agreement_score' },
  { method: 'grpo_advantage' },
];

const HELP = `
Without --methods those of the setting judge run, and where it names none ${DEFAULT_METHODS.map(({ method }) => method).join(', ')}.

A group is judged once all its episodes are closed, and again when something about it changes. One that stays smaller than its announced
size is judged after close_after seconds without events; its credits have the reason partial_group. Results are stored side by side:
the same method with other parameters does not replace them.

Examples:
  troupe judge
  troupe judge --methods correctness_filter,grpo_advantage
  troupe judge --methods 'grpo_advantage,grpo_advantage{"scale_std":false},drmas_advantage' --all
  troupe judge --methods 'cosigned_rewards{"trust":0.3},floored_advantage{"reads":"cosigned_rewards"}'
  troupe judge --where 'tags.phase = teach and reward is not null'
  troupe judge --share 1/2 & troupe judge --share 2/2      two processes, each with half of the groups

What always runs, in \`troupe run judge\` or \`troupe up\`, is the setting judge: TROUPE_JUDGE=correctness_filter,grpo_advantage`;

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('judge')
      .option('--methods <list>', 'names, with parameters in braces: grpo_advantage{"scale_std":false},drmas_advantage')
      .option('--where <filter>', 'only these episodes, their groups and their replays: a filter as in a recipe')
      .option('--episode <id...>', 'only these episodes, their groups and their replays')
      .option('--share <k/n>', 'only the k-th of n shares of the groups, so that n processes divide the work')
      .option('--all', 'include episodes that did not change since they were judged')
      .addHelpText('after', HELP),
    async ({ db, log, now, config, catchUp, patiently }, _, flags) => {
      const methods = flags.methods
        ? parseMethods(String(flags.methods))
        : config.judge === null
          ? DEFAULT_METHODS
          : parseMethods(config.judge);
      await resolveMethods(methods);
      const shares = flags.share === undefined ? undefined : sharesOf(String(flags.share));
      if (shares && (await compareEverything(methods))) {
        throw new TroupeError(
          'usage',
          '--share divides groups, and one of these methods compares all of them; leave --share out.',
        );
      }
      await catchUp();
      const where = flags.where === undefined ? null : await episodeFilter(db, String(flags.where), '--where');
      const chosen = { where, ...(shares ? { shares } : {}) };
      const found = () =>
        flags.all
          ? closedEpisodes(db, chosen)
          : unjudged(db, methods, { now: now(), closeAfter: config.close_after, ...chosen });
      const named = flags.episode as string[] | undefined;
      if (named !== undefined) await requireEpisodes(db, named);
      const episodes = named ?? (await patiently(found));
      const bar = progressBar('Judging', { quiet: flags.quiet === true || flags.json === true });
      const judging = await judge(db, log, {
        methods,
        episodes,
        now,
        patiently,
        onProgress: ({ judged, total }) => bar.update(judged, total),
      }).finally(() => bar.stop());
      await catchUp();
      const unread = await unreadRewards(db, judging.methods, episodes);
      const compared = await comparedBy(db, episodes, { now: now(), closeAfter: config.close_after });
      printJudged({ ...judging, unread }, compared, methods, flags);
      if (!flags.json) for (const line of comparedText(compared, config.close_after)) print(line);
    },
  );
}

/** @throws TroupeError `not_found` for a name that no episode has: nothing would be judged, and nobody would know why */
async function requireEpisodes(db: Db, named: readonly string[]): Promise<void> {
  const found = await rowsOf(
    db,
    query
      .selectFrom('facts.episodes')
      .select('episode_id')
      .where('episode_id', 'in', [...named]),
  );
  const there = new Set(found.map(({ episode_id }) => episode_id));
  const absent = named.find((id) => !there.has(id));
  if (absent !== undefined)
    throw new TroupeError('not_found', `There is no episode ${got(absent)}.`, {
      hint: '`troupe episodes` lists them.',
    });
}

function printJudged(
  {
    episodes,
    rows,
    without_value,
    silent,
    unread,
  }: Awaited<ReturnType<typeof judge>> & { readonly unread: readonly UnreadReward[] },
  compared: ComparedEpisodes,
  methods: readonly MethodRequest[],
  flags: Flags,
): void {
  if (flags.json)
    printJson({
      episodes,
      methods: methods.map((one) => one.method),
      rows,
      without_value,
      silent,
      unread,
      ...compared,
    });
  else if (episodes === 0) print('Nothing to judge: no closed episode of a complete group changed since.');
  else {
    const counts = Object.entries(rows).map(([table, count]) => {
      const without = without_value[table] ?? 0;
      return `${count} ${table}${without === 0 ? '' : ` (${without} without a value, with the reason why)`}`;
    });
    print(`${countText(episodes, 'episode')} judged: ${counts.join(', ') || 'no results'}.`);
    for (const one of unread) print(unreadText(one));
    for (const name of silent)
      print(
        `${name} has no result: these episodes lack what it judges. \`troupe method show ${name}\` shows what that is.`,
      );
  }
}

/** What could not be compared, and why; nothing where everything could. */
export function comparedText(
  { groups, of_one, partial, open, waiting }: ComparedEpisodes,
  closeAfter: number,
): string[] {
  const ones = of_one.alone + of_one.unplaced;
  const opens = open.unfinished + open.reopened;
  return [
    ...(ones === 0
      ? []
      : [
          `Groups with one episode: ${ones} of ${groups} (${reasons([
            [of_one.unplaced, 'without task and group'],
            [of_one.alone, 'the only episode of its task or group'],
          ])}). Methods that compare the episodes of a group have nothing to compare there.`,
        ]),
    ...(partial === 0
      ? []
      : [
          `Groups with fewer closed members than announced: ${partial} of ${groups}; the reason of their credits is partial_group.`,
        ]),
    ...(opens === 0
      ? []
      : [
          `Open and not judged: ${countText(opens, 'episode')} (${reasons([
            [
              open.unfinished,
              `without episode.finished, which the program that records sends (\`troupe run work\` closes them after ${closeAfter} s without events)`,
            ],
            [open.reopened, 'with an event after its episode.finished'],
          ])}).`,
        ]),
    ...(waiting === 0
      ? []
      : [`Waiting for open or missing members of their group: ${countText(waiting, 'closed episode')}.`]),
  ];
}

const reasons = (counted: readonly (readonly [count: number, why: string])[]): string =>
  counted
    .filter(([count]) => count > 0)
    .map(([count, why]) => `${count} ${why}`)
    .join(', ');

/** `2/3`: the second of three equal parts of the shares. */
function sharesOf(text: string): readonly number[] {
  const [, k, n] = (/^(\d+)\/(\d+)$/.exec(text) ?? []).map(Number);
  if (k === undefined || n === undefined || k < 1 || k > n || n > ALL_SHARES.length) {
    throw new TroupeError(
      'usage',
      `--share should be k/n with 1 ≤ k ≤ n ≤ ${ALL_SHARES.length}, such as 1/2, not ${got(text)}.`,
    );
  }
  return ALL_SHARES.filter((share) => share % n === k - 1);
}

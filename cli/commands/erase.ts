/** `troupe erase`: removes text for good. */
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { Command } from 'commander';
import { archivePlaces } from '../../api/operations/archive-places.ts';
import { countText, EXIT, TroupeError } from '../../errors.ts';
import type { EraseWhat } from '../../store/keep/erase-scope.ts';
import { agreed } from '../agreed.ts';
import { projectCommand } from '../command.ts';
import { answer, print, printJson, say } from '../output.ts';
import { VERSION } from '../version.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('erase')
      .option('--subject <id>', 'every event with this person in its field subject')
      .option('--episode <id>', 'one episode')
      .option('--reason <text>', 'reason to store with the erasure; must not name a person')
      .option('--keep-datasets', 'mark the datasets that used it, but keep their files')
      .option('--dry-run', 'print what would be erased, and change nothing')
      .option('--yes', 'do not ask for confirmation')
      .addHelpText(
        'after',
        '\nIds, kinds, counts and order stay; text, arguments, outputs and token ids go, and the same events are refused when they come\nagain. Datasets and checkpoints that used it are marked (view traj.erasures); the files of the datasets are removed.\n\nExamples:\n  troupe erase --subject customer-17 --dry-run\n  troupe erase --subject customer-17 --reason "asked for on 2026-11-20" --yes\n  troupe erase --episode run-1 --yes --json',
      ),
    async ({ db, catchUp, patiently, log, home, artifacts, now }, _, flags) => {
      const what = whatOf(flags);
      const [{ planErasure }, { archivedScope, eraseEverywhere }, { judgeAgain }] = await Promise.all([
        import('../../store/keep/erase.ts'),
        import('../../store/keep/erase-archived.ts'),
        import('../../store/evaluate/judging/judge.ts'),
      ]);
      await catchUp();
      const archived = await patiently(() => archivedScope(db, what, archivePlaces));
      const { keys: _keys, ...live } = await patiently(() => planErasure(db, what, archived.keys));
      const places = [...archived.archives, ...archived.unread].map(({ archive }) => archive.uri);
      const plan = { ...live, archives: places, archived_events: archived.events };
      const lying =
        places.length === 0 ? '' : `, ${countText(archived.events, 'event')} in ${countText(places.length, 'archive')}`;
      const sentence = `${countText(plan.events, 'event')} of ${countText(plan.episodes.length, 'episode')}, ${countText(plan.letters.length, 'dead letter')}${lying}; used by ${countText(plan.datasets.length, 'dataset')} and ${countText(plan.checkpoints.length, 'checkpoint')}`;
      if (flags.dryRun) {
        answer(flags, plan, `It would erase ${sentence}.`);
        return EXIT.done;
      }
      if (
        !flags.yes &&
        !(await agreed(`This erases ${sentence}. It cannot be undone. Type erase to go on: `, 'erase'))
      ) {
        throw new TroupeError('usage', `Nothing was erased (${sentence}). Pass --yes to confirm.`);
      }
      const erasure = await eraseEverywhere(db, what, {
        codeVersion: VERSION,
        places: archivePlaces,
        log,
        now,
        judge: judgeAgain,
        patiently,
        reason: (flags.reason as string | undefined) ?? null,
        removeBody: artifacts.remove,
        removeDataset: async ({ uri }) =>
          uri !== null && (isGone(uri) || (flags.keepDatasets !== true && (await removeBelow(home.datasets, uri)))),
      });
      await catchUp();
      if (flags.json) printJson(erasure);
      else {
        print(
          `Erased: ${sentence}, ${erasure.bodies} artifacts. It is noted as ${erasure.erasure_id} in traj.erasures.`,
        );
        for (const { dataset_id, removed } of erasure.datasets) {
          print(`dataset ${dataset_id}: ${removed ? 'its files are gone' : 'marked; its files are still there'}`);
        }
        for (const id of erasure.checkpoints) print(`checkpoint ${id}: marked; its weights were trained on it`);
        for (const { uri, rewritten } of erasure.archives)
          if (rewritten) print(`archive ${uri}: written anew without it`);
      }
      const left = erasure.archives.filter(({ rewritten }) => !rewritten);
      for (const { uri, why } of left)
        say(`archive ${uri}: NOT erased, its files still hold it. ${why} Put it back and erase again, or remove it.`);
      return left.length > 0 ? EXIT.failed : EXIT.done;
    },
  );
}

function whatOf(flags: Readonly<Record<string, unknown>>): EraseWhat {
  const { subject, episode } = flags;
  if (typeof subject === 'string' && episode === undefined) return { subject };
  if (typeof episode === 'string' && subject === undefined) return { episode };
  throw new TroupeError('usage', 'Missing --subject ID or --episode ID.');
}

/** Erased before, or removed by hand; of a place that is no path here nothing is known. */
const isGone = (uri: string): boolean => !uri.includes('://') && !existsSync(resolve(uri));

/** A folder of ours goes at once for its readers, and then from the disk. A place elsewhere is left to whoever chose it. */
async function removeBelow(folder: string, uri: string): Promise<boolean> {
  const path = resolve(uri);
  if (dirname(path) !== resolve(folder)) {
    say(`${path} lies outside ${folder}; remove it yourself.`);
    return false;
  }
  await rename(path, `${path}.erased`);
  await rm(`${path}.erased`, { recursive: true, force: true });
  return true;
}

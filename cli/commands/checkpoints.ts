/** `troupe checkpoints`: listing, adding, showing, verifying. */
import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Command } from 'commander';
import { bytesText } from '../../api/operations/bytes.ts';
import { countText, EXIT, TroupeError } from '../../errors.ts';
import { erasuresOf } from '../../store/keep/marks.ts';
import { checkpointAt, folderOf } from '../checkpoint-places.ts';
import { plainCommand, projectCommand } from '../command.ts';
import { addOperations } from '../derive.ts';
import { answer, paint, print, printJson, table } from '../output.ts';
import { askingProject, checkpointMoveCommands } from './checkpoints-move.ts';

/** Beside the list of the project: what works on folders and buckets. DIR is a folder of checkpoints, that of the home if left out. */
export async function addTo(program: Command): Promise<void> {
  await addOperations(program, 'checkpoints');
  const checkpoints = program.commands.find((one) => one.name() === 'checkpoints')!;

  addCommand(checkpoints);

  folderCommand(checkpoints);

  latestCommand(checkpoints);

  showCommand(checkpoints);

  verifyCommand(checkpoints);

  checkpointMoveCommands(checkpoints);
}

function addCommand(checkpoints: Command): void {
  projectCommand(
    checkpoints
      .command('add')
      .description('record a checkpoint that was trained by hand, with its datasets and its parent')
      .argument('<dir>', 'its directory, or a folder of checkpoints, of which the latest is taken')
      .requiredOption('--policy <name>', 'policy of the checkpoint')
      .addHelpText(
        'after',
        '\nThen release, checkpoints and lineage know it.\n\nExample:\n  troupe checkpoints add ./checkpoints/ab12cd34ef56ab78 --policy coder',
      ),
    async (context, [dir], flags) => {
      const { recordCheckpoint } = await import('../training/record-checkpoint.ts');
      const recorded = await recordCheckpoint(context, dir!, String(flags.policy));
      answer(flags, recorded, `Checkpoint ${recorded.checkpoint_id} of policy ${recorded.policy} is recorded.`);
    },
  );
}

function folderCommand(checkpoints: Command): void {
  plainCommand(
    checkpoints
      .command('folder')
      .description('list the checkpoints of a folder by step, and verify each')
      .argument('[dir]', 'folder of checkpoints')
      .option('--quick', 'check sizes only, without hashing files')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe checkpoints folder ./checkpoints\n  troupe checkpoints folder --quick --json',
      ),
    async ([dir], flags) => {
      const folder = folderOf(dir, flags);
      const { latestCheckpoint, listCheckpoints } = await import('../../trainer/model/checkpoints/checkpoint.ts');
      const latest = await latestCheckpoint(folder);
      const found = [];
      for (const id of await listCheckpoints(folder)) found.push(await factsOf(join(folder, id), flags.quick === true));
      const listed = found
        .toSorted((a, b) => (b.step ?? -1) - (a.step ?? -1) || (a.checkpoint_id < b.checkpoint_id ? -1 : 1))
        .map((one) => ({ ...one, latest: latest === join(folder, one.checkpoint_id) }));
      const marks = await askingProject(flags, (db) =>
        erasuresOf(
          db,
          'checkpoint',
          listed.map((one) => one.checkpoint_id),
        ),
      );
      const marked = listed.map((one) => ({ ...one, erasures: marks?.get(one.checkpoint_id) ?? null }));
      if (flags.json) printJson({ directory: folder, latest: latest && basename(latest), checkpoints: marked });
      else if (listed.length === 0) print(`No checkpoints in ${folder}.`);
      else {
        const rows = marked.map((one) => [
          `${one.checkpoint_id}${one.latest ? ' ← latest' : ''}`,
          one.step,
          one.parent,
          one.metrics && metricsText(one.metrics),
          one.bytes === null ? null : bytesText(one.bytes),
          one.fault ?? (flags.quick ? 'whole' : 'sound'),
          one.erasures?.join(', ') ?? null,
        ]);
        const heads = ['checkpoint', 'step', 'parent', 'metrics', 'size', 'state'];
        print(table([...heads, 'used what was erased'], rows));
      }
    },
  );
}

function latestCommand(checkpoints: Command): void {
  plainCommand(
    checkpoints
      .command('latest')
      .description('print the directory that the pointer latest of a folder names')
      .argument('[dir]', 'folder of checkpoints')
      .addHelpText(
        'after',
        '\nExample:\n  troupe sample --model "$(troupe checkpoints latest ./checkpoints)" --prompt "hello"',
      ),
    async ([dir], flags) => {
      const folder = folderOf(dir, flags);
      const { latestCheckpoint } = await import('../../trainer/model/checkpoints/checkpoint.ts');
      const latest = await latestCheckpoint(folder);
      if (latest === null) throw new TroupeError('not_found', `${folder} has no latest checkpoint.`);
      if (!existsSync(latest)) {
        throw new TroupeError('not_found', `latest of ${folder} names ${basename(latest)}, which is not there.`);
      }
      answer(flags, { checkpoint_id: basename(latest), directory: latest }, latest);
    },
  );
}

function showCommand(checkpoints: Command): void {
  plainCommand(
    checkpoints
      .command('show')
      .description('show the origin of a checkpoint: its datasets, its metrics and its ancestors')
      .argument('<checkpoint>', 'its directory, or its id')
      .option('--in <dir>', 'folder that holds it and its ancestors')
      .addHelpText(
        'after',
        '\nExamples:\n  troupe checkpoints show ./checkpoints/ab12cd34ef56ab78\n  troupe checkpoints show ab12cd34ef56ab78 --in ./checkpoints --json',
      ),
    async ([given], flags) => {
      const [{ readCheckpointManifest }, { adapterText }] = await Promise.all([
        import('../../trainer/model/checkpoints/checkpoint.ts'),
        import('../../trainer/model/lora.ts'),
      ]);
      const dir = checkpointAt(given!, flags);
      const { id, sha256, files, meta } = await readCheckpointManifest(dir);
      const before = await ancestors(meta.parent, [dirname(dir), folderOf(undefined, flags)]);
      const bytes = Object.values(files).reduce((sum, file) => sum + file.bytes, 0);
      if (flags.json)
        printJson({ checkpoint_id: id, sha256, directory: dir, bytes, ...meta, ancestors: before, files });
      else {
        print(
          table(
            ['what', 'value'],
            [
              ['checkpoint', id],
              ['directory', dir],
              ['step', meta.step],
              ['adapter', meta.adapter ? `${adapterText(meta.adapter)}, over ${meta.adapter.base}` : null],
              ['metrics', metricsText(meta.metrics)],
              ['datasets', meta.datasets.join(', ') || null],
              ['plan', meta.plan_hash],
              ['seed', meta.seed],
              ['log positions', JSON.stringify(meta.log_positions)],
              ['code', meta.code_version],
              ['files', `${Object.keys(files).sort().join(', ')} (${bytesText(bytes)})`],
            ].map(([name, value]) => [name, value === null ? null : String(value)]),
          ),
        );
        for (const one of before) {
          const about = one.found ? `step ${one.step}  ${metricsText(one.metrics)}` : paint.dim('not in the folder');
          print(`  ← ${one.checkpoint_id}  ${about}`.trimEnd());
        }
      }
    },
  );
}

function verifyCommand(checkpoints: Command): void {
  plainCommand(
    checkpoints
      .command('verify')
      .description('verify every file of a checkpoint, or of all in a folder, against its stored hash')
      .argument('<checkpoint>', 'its directory, its id, or a folder of checkpoints')
      .option('--in <dir>', 'folder to look up an id in')
      .addHelpText(
        'after',
        '\nEnds with 1 where one is damaged, and names the file.\n\nExamples:\n  troupe checkpoints verify ./checkpoints/ab12cd34ef56ab78\n  troupe checkpoints verify ./checkpoints',
      ),
    async ([given], flags) => {
      const { listCheckpoints, verifyCheckpoint } = await import('../../trainer/model/checkpoints/checkpoint.ts');
      const dir = checkpointAt(given!, flags);
      const within = existsSync(join(dir, 'troupe.json')) ? [] : await listCheckpoints(dir);
      if (within.length === 0) {
        const { id, files, bytes } = await verifyCheckpoint(dir);
        if (flags.json) printJson({ checkpoint_id: id, directory: dir, sound: true, bytes, files: Object.keys(files) });
        else print(`${id} is sound: ${countText(Object.keys(files).length, 'file')}, ${bytesText(bytes)}`);
        return EXIT.done;
      }
      const found = [];
      for (const id of within) found.push(await factsOf(join(dir, id), false));
      const damaged = found.filter(({ sound }) => !sound);
      if (flags.json) printJson({ directory: dir, sound: damaged.length === 0, checkpoints: found });
      else {
        for (const { checkpoint_id, fault } of damaged) print(`${checkpoint_id}: ${fault}`);
        print(`Sound: ${found.length - damaged.length} of ${countText(found.length, 'checkpoint')}.`);
      }
      return damaged.length === 0 ? EXIT.done : EXIT.failed;
    },
  );
}

/** What is known of a checkpoint; of a damaged one what is wrong with it, and what can still be read. */
async function factsOf(dir: string, quick: boolean) {
  const { readCheckpointManifest, verifyCheckpoint } = await import('../../trainer/model/checkpoints/checkpoint.ts');
  const manifest = await readCheckpointManifest(dir).catch((error: TroupeError) => error);
  const looked =
    quick || manifest instanceof Error ? manifest : await verifyCheckpoint(dir).catch((e: TroupeError) => e);
  const known = manifest instanceof Error ? null : manifest;
  return {
    checkpoint_id: basename(dir),
    step: known?.meta.step ?? null,
    parent: known?.meta.parent ?? null,
    metrics: known?.meta.metrics ?? null,
    bytes: known && Object.values(known.files).reduce((sum, file) => sum + file.bytes, 0),
    sound: !(looked instanceof Error),
    fault: looked instanceof Error ? looked.message : null,
  };
}

type Ancestor = {
  readonly checkpoint_id: string;
  readonly found: boolean;
  readonly step: number | null;
  readonly datasets: readonly string[];
  readonly metrics: Readonly<Record<string, number | null>>;
};

/** Parents, nearest first, as far as they lie in one of the folders; the first that does not is named and is the last. */
async function ancestors(parent: string | null, folders: readonly string[]): Promise<Ancestor[]> {
  const { readCheckpointManifest } = await import('../../trainer/model/checkpoints/checkpoint.ts');
  const found: Ancestor[] = [];
  let id = parent;
  while (id !== null && found.every(({ checkpoint_id }) => checkpoint_id !== id)) {
    const dir: string | undefined = folders.map((folder) => join(folder, id!)).find((one) => existsSync(one));
    const manifest = dir === undefined ? null : await readCheckpointManifest(dir).catch(() => null);
    const { step = null, datasets = [], metrics = {}, parent: next = null } = manifest?.meta ?? {};
    found.push({ checkpoint_id: id, found: manifest !== null, step, datasets, metrics });
    id = next;
  }
  return found;
}

function metricsText(metrics: Readonly<Record<string, number | null>>): string {
  const parts = Object.entries(metrics).map(
    ([name, value]) => `${name} ${value === null ? '–' : Number(value.toPrecision(5))}`,
  );
  return parts.join(', ');
}

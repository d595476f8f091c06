/** A program that saves checkpoints until it is killed, and says so: its argument is the folder. */
import {
  latestCheckpoint,
  loadCheckpoint,
  pointLatest,
  saveCheckpoint,
} from '../../trainer/model/checkpoints/checkpoint.ts';
import { tinyConfig, tinyContents } from './tiny-checkpoint.ts';

const folder = process.argv[2]!;
const config = { ...tinyConfig, hidden_size: 64, intermediate_size: 256, num_hidden_layers: 4 };
// Made once, so that the program does little else but save.
const contents = tinyContents(0, config);
const latest = await latestCheckpoint(folder);
let step = latest ? (await loadCheckpoint(latest)).meta.step : 0;
process.stdout.write(`from ${step}\n`);
for (;;) {
  step++;
  const { id } = await saveCheckpoint(folder, { ...contents, state: { row: step }, meta: { ...contents.meta, step } });
  await pointLatest(folder, id);
  process.stdout.write(`saved ${step}\n`);
}

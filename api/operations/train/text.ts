/** What a training came to, for people. */
import type { OutputOf } from '../operation.ts';
import type { runTraining } from './run-training.ts';

export const trained = (output: OutputOf<typeof runTraining>): string =>
  [
    `Checkpoint ${output.checkpoint_id} saved in ${output.directory}`,
    ...lossLines(output),
    ...(output.stopped_early ? [`Stopped after step ${output.losses.length}: the held-out loss got no better.`] : []),
    ...(output.adapter === undefined ? [] : [`Adapter in ${output.adapter}; fold it in: troupe model merge`]),
    ...(output.report === null ? [] : [`Curves in ${output.report}`]),
  ].join('\n');

/** Where the losses began and where they ended: the loss of one step is noisy, so the training loss is that of the last tenth. */
function lossLines({ losses, held_out, best }: Parameters<typeof trained>[0]): string[] {
  const late = losses.slice(-Math.max(1, Math.floor(losses.length / 10)));
  const mean = late.reduce((sum, loss) => sum + loss, 0) / late.length;
  const [first, ...later] = held_out;
  const last = later.at(-1);
  const onward = last === undefined ? '' : ` → ${last.loss.toFixed(4)} after step ${last.step}`;
  const at = last === undefined ? '' : ` after step ${first!.step}`;
  const top = best && last !== undefined ? `; best ${best.loss.toFixed(4)} after step ${best.step}` : '';
  return [
    ...(losses.length < 2
      ? []
      : [`Training loss ${losses[0]!.toFixed(4)} → ${mean.toFixed(4)} in ${losses.length} steps`]),
    ...(first === undefined ? [] : [`Held-out loss ${first.loss.toFixed(4)}${at}${onward}${top}`]),
  ];
}

/** The public names of Troupe: `openProject` first, then what it is made of. Agents' programs import `troupe/recorder`, which has no dependency. */

export { type AppOptions, buildApp } from './api/http/app.ts';
export { serve } from './api/http/serve.ts';
// api: facts are shown
export type { Methods } from './api/operations/catalogue.ts';
export {
  openProject,
  type Project,
  type ProjectOptions,
} from './cli/open-project.ts';
export { type Config, loadConfig, SETTINGS } from './config.ts';
export { ERRORS, type ErrorCode, EXIT, type Refusal, TroupeError } from './errors.ts';
// ingest: facts come in
export { type DecodeResult, decodeDraft, decodeEnvelope, decodeText } from './ingest/events/decode.ts';
export { type Draft, type Event, type EventData, type EventName, typeOf, VOCABULARY } from './ingest/events/events.ts';
// store: facts are remembered, judged, frozen
export { type ImportOptions, type ImportReport, importFiles } from './ingest/files/import.ts';
export type { AppendResult, EventLog } from './ingest/log/log.ts';
export { postgresLog } from './ingest/log/postgres.ts';
export { type FreezeResult, freeze } from './store/datasets/freeze.ts';
export { type OpenedDataset, openDataset } from './store/datasets/read.ts';
export { type Recipe, readRecipe, recipeSchema } from './store/datasets/recipe.ts';
export { type Database, type DatabaseOptions, openDatabase } from './store/db/database.ts';
export { openReader } from './store/db/reader.ts';
export { type Judging, judge, type MethodRequest, unjudged } from './store/evaluate/judging/judge.ts';
export { findMethod, METHODS } from './store/evaluate/methods/find.ts';
export type { Method, MethodKind } from './store/evaluate/methods/method.ts';
export { runMethod } from './store/evaluate/methods/run.ts';
export { ask, type SqlAnswer } from './store/explore/sql/sql.ts';
export { projectAll } from './store/projecting/projector.ts';
export { rebuild } from './store/projecting/rebuilding/rebuild.ts';
// trainer: facts become weights
export { type OpenModel, openModel } from './trainer/model/model-directory.ts';
export { Policy } from './trainer/sample/policy.ts';

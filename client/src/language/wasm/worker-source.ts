/** That worker as text, in a file that pages load with the first language model without a GPU. */
export { default as source } from "./worker.js?parts";

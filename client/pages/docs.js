/** Shows the gateway's own OpenAPI document; Swagger UI stands in a global of its bundle. */
globalThis.SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#interface",
  deepLinking: true,
  // Without this it asks a validator on another origin.
  validatorUrl: null,
});
